package main

import "testing"

// The first bucket is kube-proxy's, so that quantiles of both can be compared.
func TestProgrammingBuckets(t *testing.T) {
	t.Run("fault F33 no bucket 0", func(t *testing.T) {
		b := programmingBuckets()
		if b[0] != 0.25 || b[len(b)-1] != 300 {
			t.Errorf("from %v to %v, want from 0.25 to 300", b[0], b[len(b)-1])
		}
	})
}
