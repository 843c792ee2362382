/* How many blocks of memory are not freed, and those that are refused. The linker sends every call
 * here (--wrap). */
#include <stdlib.h>
#include "tests/sim/sim.h"

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);

bool (*blocks_refuse)(void);
static long blocks;

long
blocks_count(void)
{
	return blocks;
}

void *
__wrap_calloc(size_t count, size_t size)
{
	if (blocks_refuse != NULL && blocks_refuse())
		return NULL;
	blocks++;
	return __real_calloc(count, size);
}

void *
__wrap_realloc(void *block, size_t size)
{
	if (blocks_refuse != NULL && blocks_refuse())
		return NULL;
	if (block == NULL)
		blocks++;
	return __real_realloc(block, size);
}

void
__wrap_free(void *block)
{
	if (block != NULL)
		blocks--;
	__real_free(block);
}
