package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A reason explains why tests fail with a proxy and need not be looked at again.
type reason struct {
	proxy, test *regexp.Regexp
	why         string
}

// readReasons reads lines of PROXY | TEST | WHY, where the first two are regular expressions. Empty lines and those that
// begin with # do not count.
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
		part := strings.SplitN(line, " | ", 3)
		if len(part) != 3 {
			return nil, fmt.Errorf("%s:%d: want PROXY | TEST | WHY", name, i+1)
		}
		var r reason
		if r.proxy, err = regexp.Compile("^(" + strings.TrimSpace(part[0]) + ")$"); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		if r.test, err = regexp.Compile(strings.TrimSpace(part[1])); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		r.why = strings.TrimSpace(part[2])
		out = append(out, r)
	}
	return out, nil
}

// find returns why a test fails with a proxy, "" if nobody knows.
func find(reasons []reason, proxy, test string) string {
	for _, r := range reasons {
		if r.proxy.MatchString(proxy) && r.test.MatchString(test) {
			return r.why
		}
	}
	return ""
}
