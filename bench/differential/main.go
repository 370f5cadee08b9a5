// Differential sends the same packets through kube-proxy's own nftables proxier and through vipkit, each on a node of its
// own in network namespaces, and compares what comes out with each other and with the plan. Clusters are random, from a
// seed, and change between the comparisons. It exits with 1 if a difference has no known cause.
//
//	differential [-seed 1] [-clusters 10] [-steps 3] [-questions 120] [-iptables 5] [-for 20m] [-out differences.jsonl]
//
// With -sabotage, nft statements that are run after each change, one can see that a fault is noticed, as in
// -sabotage "flush map ip vipkit endpoints-tcp".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

func main() { netlab.Main(program{}) }

// A program runs in a process that netlab has put into a network namespace of its own.
type program struct{}

// Run returns the exit status.
func (program) Run() int {
	o := options{}
	flag.Uint64Var(&o.seed, "seed", 1, "`seed` of the first cluster; the next ones have those after it")
	flag.IntVar(&o.clusters, "clusters", 10, "how many clusters")
	flag.IntVar(&o.steps, "steps", 3, "how often each is changed")
	flag.IntVar(&o.questions, "questions", 120, "questions for each state of a cluster")
	flag.IntVar(&o.iptables, "iptables", 5, "every how many clusters our iptables backend takes part; 0: never")
	flag.DurationVar(&o.limit, "for", 20*time.Minute, "begin no further cluster after this time")
	flag.StringVar(&o.out, "out", "", "`file` for all differences, a line of JSON each")
	flag.StringVar(&o.sabotage, "sabotage", "", "nft `statements` that break vipkit's rules, separated by ;")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "differential:", err)
		return 1
	}
	return 0
}

type options struct {
	seed                                 uint64
	clusters, steps, questions, iptables int
	limit                                time.Duration
	out, sabotage                        string
}

func (o options) run(ctx context.Context) (err error) {
	var out io.Writer = io.Discard
	if o.out != "" {
		f, err := os.Create(o.out)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	all, err := contenders(ctx, o.iptables > 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(all)) }()
	p := &player{
		comparison: newComparison(all), out: out, byCause: map[string]int{},
		steps: o.steps, limit: o.questions, sabotage: o.sabotage,
	}
	start := time.Now()
	played := 0
	for i := range o.clusters {
		if ctx.Err() != nil || time.Since(start) > o.limit {
			break
		}
		p.contenders = all
		if o.iptables > 0 && i%o.iptables != 0 {
			p.contenders = all[:2]
		}
		seed := o.seed + uint64(i) //nolint:gosec // a count
		if err := p.cluster(ctx, seed); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		played++
	}
	p.summary(played, time.Since(start))
	if n := p.byCause[""]; n > 0 {
		return fmt.Errorf("%d differences without a known cause", n)
	}
	return ctx.Err()
}

func (p *player) summary(clusters int, took time.Duration) {
	fmt.Printf("%d clusters, %d states, %v\n", clusters, p.states, took.Round(time.Second))
	for _, what := range sortedKeys(p.counts) {
		fmt.Printf("%8d %s\n", p.counts[what], what)
	}
	fmt.Printf("%8d differences without a known cause\n", p.byCause[""])
	for _, c := range causes() {
		if p.byCause[c.id] > 0 {
			fmt.Printf("%8d %s: %s\n", p.byCause[c.id], c.id, strings.TrimSpace(c.why))
		}
	}
}
