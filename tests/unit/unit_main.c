/* The main function of programs that run nothing but their tests. */
#include "tests/unit/unit.h"

int
main(void)
{
	return unit_run(NULL, NULL);
}
