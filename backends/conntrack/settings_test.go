package conntrack_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vipkit/vipkit/backends/conntrack"
)

// fakeRoot has what a kernel says by default.
func fakeRoot(t *testing.T, values map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, value := range values {
		dir := "proc/sys/net/netfilter"
		switch name {
		case "hashsize":
			dir = "sys/module/nf_conntrack/parameters"
		case "online":
			dir = "sys/devices/system/cpu"
		}
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestSettings(t *testing.T) {
	kernel := map[string]string{
		"nf_conntrack_max": "65536", "hashsize": "16384",
		"nf_conntrack_tcp_timeout_established": "432000", "nf_conntrack_tcp_timeout_close_wait": "60",
		"nf_conntrack_tcp_be_liberal": "0", "nf_conntrack_udp_timeout": "30", "nf_conntrack_udp_timeout_stream": "120",
		"online": "0-3,5,8-9",
	}
	small := conntrack.DefaultSettings()
	small.CPUs = 2
	large := conntrack.Settings{MaxPerCore: 32768, MinMax: 131072, CPUs: 64}
	tests := []struct {
		name     string
		settings conntrack.Settings
		want     []string
	}{
		{"nothing", conntrack.Settings{}, nil},
		{"defaults on 2 CPUs: the minimum", small, []string{
			"nf_conntrack_max=131072", "hashsize=32768", "nf_conntrack_tcp_timeout_established=86400",
			"nf_conntrack_tcp_timeout_close_wait=3600",
		}},
		{"fault F19 64 CPUs: not more than 1,048,576", large, []string{"nf_conntrack_max=1048576", "hashsize=262144"}},
		{"a minimum above that", conntrack.Settings{MaxPerCore: 32768, MinMax: 2000000, CPUs: 64}, []string{"nf_conntrack_max=2000000", "hashsize=500000"}},
		{"too much to be multiplied", conntrack.Settings{MaxPerCore: math.MaxInt, CPUs: 8}, []string{"nf_conntrack_max=1048576", "hashsize=262144"}},
		{"fault F19 a larger value stays", conntrack.Settings{MaxPerCore: 1000, MinMax: 2000, CPUs: 2}, nil},
		{"fault F19 the node's CPUs", conntrack.Settings{MaxPerCore: 32768}, []string{"nf_conntrack_max=229376", "hashsize=57344"}},
		{"the table is left alone", conntrack.Settings{MinMax: 131072}, nil},
		{"right already", conntrack.Settings{MaxPerCore: 1, MinMax: 65536, CPUs: 1, UDP: 30 * time.Second}, nil},
		{"UDP and liberal", conntrack.Settings{UDP: 10500 * time.Millisecond, UDPStream: time.Minute, TCPBeLiberal: true}, []string{
			"nf_conntrack_udp_timeout=11", "nf_conntrack_udp_timeout_stream=60", "nf_conntrack_tcp_be_liberal=1",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := fakeRoot(t, kernel)
			written, err := tt.settings.Apply(root)
			if err != nil || !slices.Equal(written, tt.want) {
				t.Errorf("wrote %q, %v; want %q", written, err, tt.want)
			}
			if written, err = tt.settings.Apply(root); err != nil || len(written) > 0 {
				t.Errorf("wrote %q, %v again, want nothing", written, err)
			}
		})
	}
}

func TestSettingsFail(t *testing.T) {
	root := fakeRoot(t, map[string]string{"nf_conntrack_max": "none", "nf_conntrack_tcp_timeout_close_wait": "60"})
	written, err := conntrack.DefaultSettings().Apply(root)
	if !slices.Equal(written, []string{"nf_conntrack_tcp_timeout_close_wait=3600"}) {
		t.Errorf("wrote %q, want what can be written", written)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want it to say what is missing", err)
	}
}
