package nftables

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/knftables"
)

// A recorder remembers the text of every transaction, and can refuse some.
type recorder struct {
	runner
	refuse func(text string) error // nil accepts all
	texts  []string
}

func (r *recorder) Run(ctx context.Context, tx *knftables.Transaction) error {
	text := tx.String()
	r.texts = append(r.texts, text)
	if r.refuse != nil {
		if err := r.refuse(text); err != nil {
			return err
		}
	}
	return r.runner.Run(ctx, tx)
}

// record makes a backend tell what it runs.
func record(b *Backend) *recorder {
	r := &recorder{}
	open := b.open
	b.open = func() (runner, error) {
		inner, err := open()
		r.runner = inner
		return r, err
	}
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

func (r *recorder) last(tb testing.TB) string {
	tb.Helper()
	if len(r.texts) == 0 {
		return ""
	}
	return r.texts[len(r.texts)-1]
}
