package nftables

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func keyOf(namespace, name, port string, proto corev1.Protocol) plan.Key {
	return plan.Key{PortName: service.PortName{
		NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, Port: port, Protocol: proto,
	}}
}

func TestPrivateNames(t *testing.T) {
	const limit = 255 // of the kernel, for chains, sets and maps
	long := strings.Repeat("n", 63)
	t.Run("E29 E30 E31 #83 the longest identity", func(t *testing.T) {
		n := namesOf(keyOf(long, long, long, corev1.ProtocolSCTP))
		for _, name := range []string{n.endpoint(1<<32 - 1), n.fresh(1<<32 - 1), string(n) + suffixAliveCluster, string(n) + "-row-cCl"} {
			if len(name) > limit/4 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzCL0123456789-") != "" {
				t.Errorf("name %q", name)
			}
		}
	})
	t.Run("E27 E28 #83 200,000 names are different and do not change", func(t *testing.T) {
		many := 200_000
		if testing.Short() {
			many = 10_000
		}
		seen := make(map[affinityNames]int, many)
		for i := range many {
			k := keyOf(long, fmt.Sprintf("%s-%d", long[:40], i/4), []string{"", "a"}[i/2%2], []corev1.Protocol{"TCP", "UDP"}[i%2])
			n := namesOf(k)
			if other, ok := seen[n]; ok {
				t.Fatalf("%d and %d are both %s", other, i, n)
			}
			seen[n] = i
		}
		if got := namesOf(keyOf("kube-system", "kube-dns", "dns", "UDP")); got != "affinity-dufklydukc6sglur" {
			t.Errorf("the name changed to %s: a restart would not find what it made", got)
		}
	})
}

func TestSharedNames(t *testing.T) {
	all := []shared{
		{kind: denyChain, shape: plan.Shape{'r', 'r', 'd'}},
		{kind: rowChain, shape: plan.Shape{'l', 'L', 'L'}},
		{kind: rowChain, place: place{nodePort: true}, shape: plan.Shape{'c', 'C', 'l'}},
		{kind: pickChain, proto: "sctp", place: place{true, true}, size: 100},
	}
	for n := 1; n <= 64; n++ {
		for _, in := range places() {
			all = append(all, shared{kind: pickChain, proto: "tcp", place: in, size: n})
		}
	}
	names := make(map[string]bool)
	for _, s := range all {
		name := s.name()
		if got, ok := parseShared(name); !ok || got != s {
			t.Errorf("parseShared(%q) = %+v, %v, want %+v", name, got, ok, s)
		}
		if names[name] {
			t.Errorf("two chains %q", name)
		}
		names[name] = true
	}
	for _, name := range []string{"", "-", "pick", "pick-", "pick-tcp", "pick-tcp-0", "row-cC", "local-row-cCC", "row-cCC-1", "deny", "deny-", "services", "affinity-x-pick-cluster", "pick-tcp-01", "pick-icmp-2", "row-cccc", "nodeport-deny-rrd", "local-pick", "pick-local-tcp-1"} {
		if s, ok := parseShared(name); ok {
			t.Errorf("parseShared(%q) = %+v", name, s)
		}
	}
}

func TestComment(t *testing.T) {
	for _, n := range []int{0, 1, 126, 127, 128, 129, 200, 300} {
		for _, letter := range []string{"a", "ä", "😀"} {
			text := strings.Repeat(letter, n)
			got := comment(text)
			if len(got) > maxComment || !utf8.ValidString(got) || !strings.HasPrefix(text, got) {
				t.Errorf("#1 E44 comment of %d %s is %q (%d bytes)", n, letter, got, len(got))
			}
			if len(text) > maxComment && len(got) < maxComment-3 {
				t.Errorf("#1 comment of %d %s is cut to %d bytes", n, letter, len(got))
			}
		}
	}
	if got, want := comment("a\"; drop\n\\\x00\xff"), "a_; drop____"; got != want {
		t.Errorf("#1 comment = %q, want %q", got, want)
	}
}
