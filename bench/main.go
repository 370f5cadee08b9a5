// Bench measures vipkit beside kube-proxy; see README.md.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/vipkit/vipkit/bench/control"
	"github.com/vipkit/vipkit/bench/proxies"
	"github.com/vipkit/vipkit/bench/results"
	"github.com/vipkit/vipkit/bench/run"
	"github.com/vipkit/vipkit/bench/traffic"
	"github.com/vipkit/vipkit/bench/worker"
)

// Exit codes besides 0.
const (
	exitFailed = 1 // something could not be measured
	exitRow    = 3 // a requirement is not met
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == worker.Command {
		exit(work(os.Args[2]))
	}
	exit(measure())
}

func exit(err error) {
	switch {
	case err == nil:
		os.Exit(0)
	case errors.Is(err, errRow):
		os.Exit(exitRow)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitFailed)
	}
}

// work is the program as a worker.
func work(arg string) error {
	var spec worker.Spec
	if err := json.Unmarshal([]byte(arg), &spec); err != nil {
		return err
	}
	if spec.Part == results.Traffic {
		return worker.Serve(traffic.New(spec).Run, os.Stdin, os.Stdout)
	}
	stage, err := control.New(spec)
	if err != nil {
		return err
	}
	return worker.Serve(stage.Run, os.Stdin, os.Stdout)
}

// errRow says that the answer is on standard output already.
var errRow = errors.New("a requirement is not met")

// A settings is the command line.
type settings struct {
	run.Options
	json, svg string
	earlier   []string
}

func parse() (settings, error) {
	s := settings{Options: run.Options{Log: os.Stderr}}
	parts := flag.String("parts", "control,trackers,traffic", "what to measure; \"\" for nothing")
	planes := flag.String("planes", proxies.NFTables+","+proxies.IPTables, "data planes of part control")
	sizes := flag.String("sizes", "1000,10000", "numbers of Services of part control; iptables stops at 5,000")
	trafficSizes := flag.String("traffic-sizes", "10000", "numbers of Services of part traffic")
	flag.IntVar(&s.Endpoints, "endpoints", 10, "endpoints of each Service")
	flag.IntVar(&s.Rounds, "rounds", 5, "how often everything is measured")
	flag.IntVar(&s.KubeMost, "kube-most", 10_000, "largest number of Services to measure kube-proxy with")
	flag.IntVar(&s.KubeSlow, "kube-slow", 10_000, "number of Services from which kube-proxy is measured less often")
	flag.IntVar(&s.KubeRounds, "kube-rounds", 1, "how often that is")
	flag.BoolVar(&s.Full, "full", false, "do not leave out kube-proxy's slow steps")
	flag.StringVar(&s.Profile, "profile", "", "existing folder for profiles of processor time and heap of first syncs")
	flag.StringVar(&s.json, "json", "", "file to write the measurements to")
	flag.StringVar(&s.svg, "svg", "", "folder to draw growth curves in")
	flag.Func("add", "file with the measurements of an earlier run, to show with these; repeatable", func(name string) error {
		s.earlier = append(s.earlier, name)
		return nil
	})
	flag.Parse()
	if flag.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	long := map[string]string{"control": results.Control, "trackers": results.Trackers, "traffic": results.Traffic}
	for _, p := range list(*parts) {
		if long[p] == "" {
			return s, fmt.Errorf("no part %q", p)
		}
		s.Parts = append(s.Parts, long[p])
	}
	s.Planes = list(*planes)
	var err error
	if s.Sizes, err = numbers(*sizes); err == nil {
		s.TrafficSizes, err = numbers(*trafficSizes)
	}
	return s, err
}

func numbers(text string) ([]int, error) {
	var out []int
	for _, f := range list(text) {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 || n > 100_000 {
			return nil, fmt.Errorf("size %q is not a number from 1 to 100000", f)
		}
		out = append(out, n)
	}
	return out, nil
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

func measure() error {
	s, err := parse()
	if err != nil {
		return err
	}
	r := &results.Run{Machine: machine(), Command: strings.Join(os.Args[1:], " ")}
	for _, name := range s.earlier {
		earlier, err := results.Read(name)
		if err != nil {
			return err
		}
		r.Merge(earlier)
	}
	var unsaved error
	s.Save = func() {
		if s.json != "" {
			unsaved = r.Write(s.json)
		}
	}
	failed := run.Run(s.Options, r)
	for _, line := range r.Machine {
		fmt.Println("*", line)
	}
	r.WriteTables(os.Stdout)
	fmt.Println()
	good := r.WriteRows(os.Stdout)
	s.Save()
	failed = errors.Join(failed, unsaved)
	if s.svg != "" {
		failed = errors.Join(failed, r.Draw(s.svg))
	}
	if failed == nil && !good {
		return errRow
	}
	return failed
}
