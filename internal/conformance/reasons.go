package conformance

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A Reason says why a proxy fails tests.
type Reason struct {
	ID, Why     string
	proxy, test *regexp.Regexp
}

// ReadReasons reads a file with lines of PROXY | TEST | ID | WHY, where the first two are regular expressions for whole
// names. Empty lines and those that begin with # do not count.
func ReadReasons(file string) ([]Reason, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []Reason
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r, err := parseReason(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func parseReason(line string) (r Reason, err error) {
	part := strings.SplitN(line, " | ", 4)
	if len(part) != 4 {
		return r, errors.New("want PROXY | TEST | ID | WHY")
	}
	for i := range part {
		part[i] = strings.TrimSpace(part[i])
	}
	r.ID, r.Why = part[2], part[3]
	if r.proxy, err = regexp.Compile("^(?:" + part[0] + ")$"); err != nil {
		return r, err
	}
	r.test, err = regexp.Compile("^(?:" + part[1] + ")$")
	return r, err
}

// Of reports whether the reason is one of a proxy.
func (r Reason) Of(proxy string) bool { return r.proxy.MatchString(proxy) }

// Find returns the index of the first reason why a proxy fails a test, -1 if there is none.
func Find(reasons []Reason, proxy, test string) int {
	for i, r := range reasons {
		if r.proxy.MatchString(proxy) && r.test.MatchString(test) {
			return i
		}
	}
	return -1
}
