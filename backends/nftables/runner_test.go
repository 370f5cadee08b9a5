package nftables

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// A recorder remembers the text of every transaction, and can refuse some.
type recorder struct {
	runner
	refuse func(text string) error // nil accepts all
	texts  []string                // that were accepted
}

func (r *recorder) run(ctx context.Context, text []byte) error {
	if r.refuse != nil {
		if err := r.refuse(string(text)); err != nil {
			return err
		}
	}
	r.texts = append(r.texts, string(text))
	return r.runner.run(ctx, text)
}

// record makes a backend tell what it runs.
func record(b *Backend) *recorder {
	r := &recorder{runner: b.runner}
	b.runner = r
	return r
}

// written returns all statements but the deletion of chains that an earlier
// transaction has emptied.
func (r *recorder) written() []string {
	var lines []string
	for line := range strings.Lines(strings.Join(r.texts, "")) {
		if !strings.HasPrefix(line, "delete chain") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// clear forgets what was written.
func (r *recorder) clear() { r.texts = nil }

var errRefused = errors.New("refused by the test")

// refuseIf refuses transactions that contain a text.
func refuseIf(part string) func(string) error {
	return func(text string) error {
		if strings.Contains(text, part) {
			return errRefused
		}
		return nil
	}
}

// nowhere stands for a kernel that has nothing and takes everything.
type nowhere struct {
	commits uint32
}

func (n *nowhere) run(context.Context, []byte) error                { n.commits++; return nil }
func (n *nowhere) check(context.Context, []byte) error              { return nil }
func (n *nowhere) version(context.Context) (string, error)          { return "nftables v1.0.6", nil }
func (n *nowhere) release() (string, error)                         { return "6.1.0", nil }
func (n *nowhere) generation() (uint32, error)                      { return n.commits + 1, nil }
func (n *nowhere) read(*family, string) (*contents, error)          { return nil, nil }
func (n *nowhere) elements(*family, string, box) ([]element, error) { return nil, nil }

func (n *nowhere) clients(*family, string, box) ([]client, error) { return nil, nil }

func (n *nowhere) element(*family, string, box, key) (element, bool, error) {
	return element{}, false, nil
}

// inNowhere returns a backend without a kernel, and what it writes.
func inNowhere(tb testing.TB, opts Options) (*Backend, *recorder) {
	tb.Helper()
	b, n := newBackend(tb, opts), &nowhere{}
	b.kernel, b.runner = n, n
	return b, record(b)
}
