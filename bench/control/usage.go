// Package control measures the control plane: what it costs a proxy to follow the
// cluster. It is run by a worker.
package control

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the time that the process and the children it waited for took.
func cpuTime() time.Duration {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// liveHeap returns what is reachable.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC() // what the first one freed from pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// peakRSS returns the peak of a process, 0 if it is gone. Getrusage would not do: a child
// inherits the peak of the process that forked it.
func peakRSS(pid string) float64 {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			n, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB"), 64)
			return n * 1024
		}
	}
	return 0
}

// childrenRSS returns the largest peak among the children that run now.
func childrenRSS() float64 {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	most := 0.0
	for _, list := range lists {
		pids, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for _, pid := range strings.Fields(string(pids)) {
			most = max(most, peakRSS(pid))
		}
	}
	return most
}

// pollInterval is how often the children are looked at: often enough for those that
// take long and so are large, too seldom to cost much, since a look takes a millisecond.
const pollInterval = 100 * time.Millisecond

// watchChildren returns a function that ends the watch and returns the largest peak.
func watchChildren() func() float64 {
	stop, peak := make(chan struct{}), make(chan float64)
	go func() {
		t := time.NewTicker(pollInterval)
		defer t.Stop()
		most := 0.0
		for {
			select {
			case <-t.C:
				most = max(most, childrenRSS())
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	return func() float64 { close(stop); return <-peak }
}
