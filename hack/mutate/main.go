// Mutate shows that tests notice faults of the packages that decide what happens to a packet. It makes small
// changes of their source one at a time and runs the tests, one of which must fail.
//
//	go run ./hack/mutate [-packages REGEXP] [-n N] [-seed N] [-time 15m] [-mutant 1m] [-jobs N] [-v]
//
// The operators work on the syntax tree with types: negate (a condition is turned round), drop (a statement is left out), swap
// (neighbouring arguments or operands of one type, && for ||, a constant for the next of its type, true for false) and off-by-one
// (an integer literal, < for <=). What decides nothing is left out, by rule: texts of errors and logs, room that is reserved, durations that are
// only measured, and locks; see leftOut. Constants that must be constant are not changed.
//
// All faults of a package are compiled into one program, which asks the environment which one is active, so a fault costs
// the run of tests and no build. The tree is not changed (go build -overlay). Each test is run alone once, to see which faults it
// reaches; only those tests judge a fault: first the package's unit tests, then those of a package above, then the scenarios of the suite that a
// data plane passes, until one fails. A test that runs into its deadline has noticed the fault.
//
// Of each package the N faults with the lowest hash of seed and change are tried; an edit elsewhere in the source draws no other
// ones. The file survivors.txt lists faults that may go unnoticed, with reasons. It exits with 1 if another one did, or if a listed one does not exist any more; with
// 2 if it could not work. Faults for which the time was too short are counted and are no failure.
//
// It needs what the tests need: for the kernel's data planes, root, nft and iptables.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"time"
)

// options are the flags.
type options struct {
	packages, scenarios *regexp.Regexp
	only                *regexp.Regexp
	survivors           string
	n, jobs             int
	seed                int64
	time, mutant        time.Duration
	verbose, list       bool
}

func main() {
	o := flags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	code, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	stop()
	os.Exit(code)
}

func flags() options {
	var o options
	o.packages, o.scenarios, o.only = regexp.MustCompile("."), regexp.MustCompile("."), regexp.MustCompile(".")
	pattern := func(name string, to **regexp.Regexp, usage string) {
		flag.Func(name, usage, func(s string) (err error) { *to, err = regexp.Compile(s); return err })
	}
	pattern("packages", &o.packages, "only packages that match")
	pattern("scenarios", &o.scenarios, "only scenarios of the suite that match")
	pattern("only", &o.only, "only faults whose line in survivors.txt would match")
	flag.StringVar(&o.survivors, "survivors", "hack/mutate/survivors.txt", "faults that may go unnoticed")
	flag.IntVar(&o.n, "n", 40, "faults to try of each package; 0 is all")
	flag.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0), "faults to try at a time")
	flag.Int64Var(&o.seed, "seed", 1, "draws the faults")
	flag.DurationVar(&o.time, "time", 15*time.Minute, "for all of it")
	flag.DurationVar(&o.mutant, "mutant", time.Minute, "for one fault; tests that are left when it is over are not run")
	flag.BoolVar(&o.verbose, "v", false, "print every fault, not only survivors")
	flag.BoolVar(&o.list, "list", false, "print the drawn faults and try none")
	flag.Parse()
	return o
}

// run does everything and returns the code to exit with.
func run(ctx context.Context, o options) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, o.time)
	defer cancel()
	known, err := accepted(o.survivors)
	if err != nil {
		return 2, err
	}
	chosen := slices.DeleteFunc(targets(), func(t target) bool { return !o.packages.MatchString(t.dir) })
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 2, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	l, err := woven(ctx, dir, chosen)
	if err != nil {
		return 2, err
	}
	jobs := draw(o, chosen, l.mutants)
	if o.list {
		for _, j := range jobs {
			fmt.Println(j.mutant.key())
		}
		return 0, nil
	}
	work := &lab{dir: dir, overlay: l.overlay, jobs: max(1, o.jobs), match: o.scenarios, benches: map[stage]*bench{}}
	for _, t := range chosen {
		if err = work.prepare(ctx, t); err != nil {
			return 2, err
		}
	}
	r := newReport(l.mutants, known)
	for v := range work.judgeAll(ctx, jobs, o.mutant) {
		if line := r.add(v); line != "" && o.verbose {
			fmt.Printf("%s:%d: %s\n", v.sites[0].file.rel, v.pos.Line, v.key())
			fmt.Println("\t" + line)
		}
	}
	r.print(os.Stdout)
	stale := r.stale(l.mutants)
	for _, k := range stale {
		fmt.Printf("\n%s: no such fault any more:\n  %s\n", o.survivors, k)
	}
	if len(stale)+len(r.unexplained()) > 0 {
		return 1, nil
	}
	return 0, nil
}

// woven loads the packages and weaves all mutants into them.
func woven(ctx context.Context, dir string, chosen []target) (*loom, error) {
	var dirs []string
	for _, t := range chosen {
		dirs = append(dirs, t.dir)
	}
	l := &loom{dir: dir}
	var err error
	if l.sources, err = load(ctx, dirs); err != nil {
		return nil, err
	}
	for _, s := range l.sources {
		l.mutants = append(l.mutants, s.mutants()...)
	}
	for i, m := range l.mutants {
		m.id = i + 1
	}
	refused, err := l.weaveAll(ctx)
	fmt.Printf("%d faults in %d packages; %d more do not compile\n", len(l.mutants), len(dirs), refused)
	return l, err
}

// draw takes the mutants to try, one of each package in turn, so that a run that is cut short has tried as many of each.
func draw(o options, chosen []target, all []*mutant) []job {
	of := map[string][]*mutant{}
	for _, m := range all {
		if o.only.MatchString(m.key()) {
			of[m.dir] = append(of[m.dir], m)
		}
	}
	type placed struct {
		job
		place int
	}
	var list []placed
	for _, t := range chosen {
		ms := of[t.dir]
		slices.SortStableFunc(ms, func(a, b *mutant) int { return cmp.Compare(a.rank(o.seed), b.rank(o.seed)) })
		for i, m := range ms {
			if o.n == 0 || i < o.n {
				list = append(list, placed{job{t, m}, i})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b placed) int { return a.place - b.place })
	jobs := make([]job, len(list))
	for i, p := range list {
		jobs[i] = p.job
	}
	return jobs
}
