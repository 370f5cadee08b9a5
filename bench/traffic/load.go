package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipkit/vipkit/bench/results"
)

const (
	clients  = 4                      // threads that dial
	warmUp   = 100 * time.Millisecond // not counted
	duration = time.Second
)

// A tally is what one client saw.
type tally struct {
	latencies []time.Duration
	err       error
}

// load makes all clients repeat an exchange and returns the rate and latencies.
func (s *Stage) load(do exchange, to netip.AddrPort) (results.Values, error) {
	tallies := make([]tally, clients)
	var wg sync.WaitGroup
	start := time.Now().Add(warmUp)
	end := start.Add(duration)
	for i := range tallies {
		wg.Go(func() {
			err := s.lab.Namespace(clientHost).Do(func() error { return tallies[i].run(do, i, to, start, end) })
			tallies[i].err = errors.Join(tallies[i].err, err)
		})
	}
	wg.Wait()
	return summary(tallies)
}

// run repeats an exchange from the i-th part of the client's addresses.
func (t *tally) run(do exchange, i int, to netip.AddrPort, start, end time.Time) error {
	const own = sources / clients
	for n := 0; ; n++ {
		began := time.Now()
		if began.After(end) {
			return nil
		}
		if err := do(clientIP(i*own+n%own), to); err != nil {
			return fmt.Errorf("traffic: %w", err)
		}
		if began.After(start) {
			t.latencies = append(t.latencies, time.Since(began))
		}
	}
}

func summary(tallies []tally) (results.Values, error) {
	var all []time.Duration
	var errs []error
	for _, t := range tallies {
		all, errs = append(all, t.latencies...), append(errs, t.err)
	}
	if err := errors.Join(errs...); err != nil || len(all) == 0 {
		return nil, errors.Join(err, errors.New("traffic: nothing came through"))
	}
	slices.Sort(all)
	return results.Values{
		results.Rate: float64(len(all)) / duration.Seconds(),
		results.P50:  all[len(all)/2].Seconds(),
		results.P99:  all[len(all)*99/100].Seconds(),
	}, nil
}

// bulk writes to one connection.
func (s *Stage) bulk(to netip.AddrPort) (results.Values, error) {
	var bits float64
	err := s.lab.Namespace(clientHost).Do(func() error {
		fd, err := dial(unix.SOCK_STREAM, clientIP(0), to)
		if err != nil {
			return err
		}
		defer unix.Close(fd) //nolint:errcheck // what was not read does not matter
		buf := make([]byte, bufferSize)
		start := time.Now()
		written := 0
		for time.Since(start) < duration {
			n, err := unix.Write(fd, buf)
			if err != nil {
				return err
			}
			written += n
		}
		bits = 8 * float64(written) / time.Since(start).Seconds()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("traffic: bulk: %w", err)
	}
	return results.Values{results.Bits: bits}, nil
}
