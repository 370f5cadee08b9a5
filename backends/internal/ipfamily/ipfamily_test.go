package ipfamily

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		list []corev1.IPFamily
		want string
	}{
		{nil, ""},
		{[]corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, ""},
		{[]corev1.IPFamily{}, "option Families: empty"},
		{[]corev1.IPFamily{corev1.IPv4Protocol, "IPv5"}, `option Families: unknown family "IPv5"`},
	}
	for _, tt := range tests {
		got := ""
		if err := Check(tt.list); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Check(%q) = %q, want %q", tt.list, got, tt.want)
		}
	}
}
