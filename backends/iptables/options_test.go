package iptables

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestOptions(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		want string // in the error, "" for none
	}{
		{"zero value", Options{}, ""},
		{"all set", Options{
			Name: "NODE9", Variant: Legacy, MasqueradeMark: 1 << 31, Families: []corev1.IPFamily{corev1.IPv6Protocol}, LockWait: time.Minute,
		}, ""},
		{"prefix of kube-proxy", Options{Name: "KUBE"}, `Name "KUBE"`},
		{"lower case", Options{Name: "vipkit"}, `Name "vipkit"`},
		{"long prefix", Options{Name: "ABCDEFGHIJ"}, "Name"},
		{"unknown variant", Options{Variant: "ebtables"}, `Variant "ebtables"`},
		{"two bits", Options{MasqueradeMark: 0x6000}, "MasqueradeMark 0x6000"},
		{"short wait", Options{LockWait: time.Millisecond}, "LockWait 1ms"},
		{"no families", Options{Families: []corev1.IPFamily{}}, "Families: empty"},
		{"unknown family", Options{Families: []corev1.IPFamily{"IPv5"}}, `"IPv5"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.opts)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("New: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("New = %v, want an error with %q", err, tt.want)
			}
		})
	}
}
