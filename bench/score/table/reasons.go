package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A reason explains failures of a proxy by an id and a sentence.
type reason struct {
	proxy, scenario *regexp.Regexp
	id, why         string
}

// readReasons reads lines of PROXY | SCENARIO | ID | WHY, where the first two are regular expressions for whole names.
// Empty lines and those that begin with # do not count.
func readReasons(name string) ([]reason, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []reason
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		part := strings.SplitN(line, " | ", 4)
		if len(part) != 4 {
			return nil, fmt.Errorf("%s:%d: want PROXY | SCENARIO | ID | WHY", name, i+1)
		}
		r := reason{id: strings.TrimSpace(part[2]), why: strings.TrimSpace(part[3])}
		if r.proxy, err = whole(part[0]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		if r.scenario, err = whole(part[1]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func whole(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile("^(?:" + strings.TrimSpace(pattern) + ")$")
}

// find returns the index of the first reason for a failure, -1 if there is none.
func find(why []reason, proxy, scenario string) int {
	for i, w := range why {
		if w.proxy.MatchString(proxy) && w.scenario.MatchString(scenario) {
			return i
		}
	}
	return -1
}
