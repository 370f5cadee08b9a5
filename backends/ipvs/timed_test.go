package ipvs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/knftables"
)

// A stuck nft ends with its context only.
type stuck struct{ knftables.Interface }

func (stuck) Run(ctx context.Context, _ *knftables.Transaction) error {
	<-ctx.Done()
	return ctx.Err()
}

func (stuck) List(ctx context.Context, _ string) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuck) ListElements(ctx context.Context, _, _ string) ([]*knftables.Element, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTimed(t *testing.T) {
	t.Run("fault F14 an nft that hangs is ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			nft, start := timed{stuck{}}, time.Now()
			_, listed := nft.List(t.Context(), "chains")
			_, elements := nft.ListElements(t.Context(), "set", "frontends-4")
			for _, err := range []error{listed, elements, nft.Run(t.Context(), nil)} {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want the deadline", err)
				}
			}
			if took := time.Since(start); took != 3*nftTimeout {
				t.Errorf("three runs took %v, want %v", took, 3*nftTimeout)
			}
		})
	})
}
