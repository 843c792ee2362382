// etcd WORKLOAD CLIENTS SECONDS SERVERS: the same for etcd as `load` for files.
//
// Each client has connections of its own, to all the servers (host:port,host:port...), as the library has them. A lock
// is the library's: a key with the lease of its client, in a transaction; who is not the first waits for the key before
// its own. A read is linearizable, as those of a mount are.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"go.uber.org/zap"
)

const (
	shared = "/bench/shared"
	// Of a write, and between two of them: shorter than an election, which takes a second, so that its end is noticed.
	attempt = 250 * time.Millisecond
	pause   = 10 * time.Millisecond
)

var (
	small, large = strings.Repeat("x", 64), strings.Repeat("x", 256*1024)
	background   = context.Background()
)

type worker struct {
	client *clientv3.Client
	mutex  *concurrency.Mutex
	own    string
	times  []time.Duration
}

var workloads = map[string]func(w *worker){
	"write": func(w *worker) { w.put(small) },
	"large": func(w *worker) { w.put(large) },
	"read": func(w *worker) {
		_, err := w.client.Get(background, shared)
		check(err)
	},
	"lock":    (*worker).lock,
	"handoff": (*worker).lock,
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

// Once more if a server fails, which is no failure of a load that goes on.
func (w *worker) put(value string) {
	for {
		limited, cancel := context.WithTimeout(background, attempt)
		_, err := w.client.Put(limited, w.own, value)
		cancel()
		if err == nil {
			return
		}
		time.Sleep(pause)
	}
}

func (w *worker) lock() {
	check(w.mutex.Lock(background))
	check(w.mutex.Unlock(background))
}

func prepare(workload string, i int, servers []string) *worker {
	quiet := zap.Config{Level: zap.NewAtomicLevelAt(zap.FatalLevel), Encoding: "json"}
	client, err := clientv3.New(clientv3.Config{Endpoints: servers, LogConfig: &quiet})
	check(err)
	w := &worker{client: client, own: fmt.Sprint("/bench/", i)}
	w.put(small)
	if workload == "lock" || workload == "handoff" {
		session, err := concurrency.NewSession(client)
		check(err)
		locked := map[string]string{"lock": w.own, "handoff": shared}[workload]
		w.mutex = concurrency.NewMutex(session, locked+"/lock")
	}
	return w
}

func report(workers []*worker, took time.Duration) {
	var all []time.Duration
	for _, w := range workers {
		all = append(all, w.times...)
	}
	n := len(all)
	rate := float64(n) / took.Seconds()
	if n == 0 {
		all = append(all, 0)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	fmt.Printf("%.0f %d %d %d\n", rate, all[n/2].Microseconds(), all[n*99/100].Microseconds(),
		all[len(all)-1].Microseconds())
}

func main() {
	if len(os.Args) != 5 || workloads[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: etcd WORKLOAD CLIENTS SECONDS SERVERS")
		os.Exit(2)
	}
	clients, err := strconv.Atoi(os.Args[2])
	check(err)
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	check(err)
	workers := make([]*worker, clients)
	for i := range workers {
		workers[i] = prepare(os.Args[1], i, strings.Split(os.Args[4], ","))
	}
	_, err = workers[0].client.Put(background, shared, small)
	check(err)

	run := workloads[os.Args[1]]
	var ended int32
	var running sync.WaitGroup
	begun := time.Now()
	running.Add(clients)
	for _, w := range workers {
		go func(w *worker) {
			defer running.Done()
			for atomic.LoadInt32(&ended) == 0 {
				before := time.Now()
				run(w)
				w.times = append(w.times, time.Since(before))
			}
		}(w)
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	atomic.StoreInt32(&ended, 1)
	running.Wait()
	report(workers, time.Since(begun))
	for _, w := range workers {
		check(w.client.Close())
	}
}
