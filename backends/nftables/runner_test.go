package nftables

import (
	"context"
	"errors"
	"strings"
)

// A recorder remembers the text of every transaction, and can refuse some.
type recorder struct {
	runner
	refuse func(text string) error // nil accepts all
	texts  []string
}

func (r *recorder) run(ctx context.Context, text []byte) error {
	r.texts = append(r.texts, string(text))
	if r.refuse != nil {
		if err := r.refuse(string(text)); err != nil {
			return err
		}
	}
	return r.runner.run(ctx, text)
}

// record makes a backend tell what it runs.
func record(b *Backend) *recorder {
	r := &recorder{runner: b.runner}
	b.runner = r
	return r
}

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

func (r *recorder) last() string {
	if len(r.texts) == 0 {
		return ""
	}
	return r.texts[len(r.texts)-1]
}
