package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Flood makes new TCP connections as p says, as fast as it can, and closes each at once;
// workers is how many are made at a time. It goes on until stop is called, which
// returns how many there were of each outcome, and the first error of the lab itself.
// Flood returns when the first connection was made.
func (l *Lab) Flood(p Probe, workers int) (stop func() (map[Outcome]int, error)) {
	f := &flood{lab: l, probe: p, counts: make(map[Outcome]int)}
	if f.probe.Protocol = corev1.ProtocolTCP; f.probe.Timeout == 0 {
		f.probe.Timeout = 5 * time.Second
	}
	var started, ended sync.WaitGroup
	for range workers {
		started.Add(1)
		ended.Go(func() { f.work(sync.OnceFunc(started.Done)) })
	}
	started.Wait()
	return func() (map[Outcome]int, error) {
		f.done.Store(true)
		ended.Wait()
		return f.counts, f.err
	}
}

// A flood is what the workers of one Flood share.
type flood struct {
	lab   *Lab
	probe Probe
	done  atomic.Bool

	mu     sync.Mutex
	counts map[Outcome]int
	err    error
}

func (f *flood) work(first func()) {
	defer first()
	counts := make(map[Outcome]int)
	var err error
	for err == nil && !f.done.Load() {
		var o Outcome
		o, err = f.once()
		counts[o]++
		first()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for o, n := range counts {
		f.counts[o] += n
	}
	f.err = errors.Join(f.err, err)
}

// once makes one connection. It uses no file of the runtime, which would cost more than
// the connection.
func (f *flood) once() (Outcome, error) {
	fd, err := f.lab.clientSocket(f.probe)
	if err != nil {
		return NoAnswer, fmt.Errorf("netlab: flood %s from %s: %w", f.probe.Destination, f.probe.From, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was sent
	if err = errors.Join(reset(fd), queueErrors(fd, f.probe.Destination.Addr())); err != nil {
		return NoAnswer, fmt.Errorf("netlab: flood: %w", err)
	}
	err = await(fd, f.probe.Destination, f.probe.Timeout)
	if err == nil {
		return Answered, nil
	}
	_, res, err := failed(err)
	return res.Outcome, err
}

// reset makes closing a socket a reset, which leaves nothing waiting in either kernel.
func reset(fd int) error {
	return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// await connects a socket that does not block.
func await(fd int, dst netip.AddrPort, timeout time.Duration) error {
	err := unix.Connect(fd, sockaddr(dst))
	deadline := time.Now().Add(timeout)
	for errors.Is(err, unix.EINPROGRESS) {
		left := int(time.Until(deadline).Milliseconds())
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if _, err = unix.Poll(fds, left); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		done, failure := connected(fd)
		if done {
			return failure
		}
		if errors.Is(failure, unix.ENOTCONN) {
			failure = nil
		}
		if err = unix.EINPROGRESS; failure != nil {
			return failure
		}
	}
	return err
}
