package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// pace is the time between two requests of one sender.
const pace = 2 * time.Millisecond

// A way is who dials what.
type way struct{ from, to string }

// traffic dials again and again in the background, and counts.
type traffic struct {
	way
	stop chan struct{}
	done chan struct{}

	requests, failures int // valid when done
	last               string
}

// startTraffic begins to send on all ways.
func startTraffic(t *testing.T, lab *netlab.Lab, ways ...way) []*traffic {
	t.Helper()
	var all []*traffic
	for _, w := range ways {
		tr := &traffic{way: w, stop: make(chan struct{}), done: make(chan struct{})}
		go tr.run(lab)
		t.Cleanup(tr.end)
		all = append(all, tr)
	}
	return all
}

func (tr *traffic) run(lab *netlab.Lab) {
	defer close(tr.done)
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for !isClosed(tr.stop) {
		got := dialQuietly(lab, tr.from, tr.to, 2*time.Second)
		tr.requests++
		if net.ParseIP(got) == nil {
			tr.failures++
			tr.last = got
		}
		<-ticker.C
	}
}

// end stops the traffic.
func (tr *traffic) end() {
	if !isClosed(tr.stop) {
		close(tr.stop)
	}
	<-tr.done
}

// A poll is a load balancer that asks a health-check port again and again. It keeps each answer
// that differs from the one before, as "200, 1 endpoint".
type poll struct {
	stop chan struct{}
	done chan struct{}

	asked   int // valid when done
	answers []string
}

// startPoll begins to ask from outside.
func startPoll(t *testing.T, lab *netlab.Lab, port int32) *poll {
	t.Helper()
	p := &poll{stop: make(chan struct{}), done: make(chan struct{})}
	client := &http.Client{
		Timeout:   patience,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialIn(lab, "client")},
	}
	go func() {
		defer close(p.done)
		ticker := time.NewTicker(10 * pace)
		defer ticker.Stop()
		for !isClosed(p.stop) {
			p.asked++
			if is := ask(client, fmt.Sprintf("http://%s:%d/", nodeIP, port)); len(p.answers) == 0 || p.answers[len(p.answers)-1] != is {
				p.answers = append(p.answers, is)
			}
			<-ticker.C
		}
	}()
	t.Cleanup(p.end)
	return p
}

func ask(client *http.Client, url string) string {
	answer, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	weight := answer.Header.Get("X-Load-Balancing-Endpoint-Weight")
	if err != nil || !strings.Contains(string(body), `"localEndpoints": `+weight+",") {
		return fmt.Sprintf("weight %s, but %v and %s", weight, err, body)
	}
	return fmt.Sprintf("%d, %s endpoint", answer.StatusCode, weight)
}

// end stops asking.
func (p *poll) end() {
	if !isClosed(p.stop) {
		close(p.stop)
	}
	<-p.done
}

// check ends the poll and compares its answers.
func (p *poll) check(t *testing.T, want ...string) {
	t.Helper()
	p.end()
	if !slices.Equal(p.answers, want) {
		t.Errorf("answers on the health-check port: %q, want %q", p.answers, want)
	}
}

// dialIn opens connections from a host.
func dialIn(lab *netlab.Lab, host string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		// The socket belongs to the namespace in which it is made.
		err = lab.Namespace(host).Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}
