// What programs in Go do: `children LOG` writes into a log that stays open, and starts children, while
// another file is open that was written (with HALT set, once it was stopped and continued); `count
// FILE` adds ten to the number in it, under its lock.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func children(path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0644)
	check(err)
	beside, err := os.Create(path + ".beside")
	check(err)
	_, err = beside.WriteString("written")
	check(err)
	if os.Getenv("HALT") != "" {
		check(syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	}
	out := log.New(f, "", 0)
	var all sync.WaitGroup
	for i := 1; i <= 10; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			said, err := exec.Command("echo", "child", strconv.Itoa(i)).Output()
			check(err)
			out.Print(strings.TrimSpace(string(said)), " of 10")
		}(i)
	}
	all.Wait()
	direct := exec.Command("echo", "directly")
	direct.Stdout = f
	check(direct.Run())
	check(f.Sync())
	check(beside.Close())
	check(f.Close())
}

// As cmd/go/internal/lockedfile.Transform does it.
func count(path string) {
	for i := 0; i < 10; i++ {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		check(err)
		check(syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
		text, err := io.ReadAll(f)
		check(err)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		check(err)
		_, err = f.WriteAt([]byte(strconv.Itoa(n+1)+"\n"), 0)
		check(err)
		check(syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
		check(f.Close())
	}
}

func main() {
	if os.Args[1] == "children" {
		children(os.Args[2])
	} else {
		count(os.Args[2])
	}
}
