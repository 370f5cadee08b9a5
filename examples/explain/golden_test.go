package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden compares the whole answer for the manifests of the quickstart, byte by
// byte. The golden files were checked by hand against the manifests.
func TestGolden(t *testing.T) {
	tests := []struct {
		name string
		args []string
	}{
		{"quickstart", []string{"-packet", "10.244.1.5,10.96.0.10:80,tcp"}},
		{"quickstart-pods", []string{
			"-pod-cidr", "10.244.1.0/24", "-pod-cidr", "fd00:10:244:1::/64",
			"-packet", "10.244.1.5,10.96.0.10:80,tcp",
			"-packet", "10.244.1.10,10.96.0.10:80,tcp",
			"-packet", "198.51.100.7,172.18.0.11:30080,tcp",
			"-packet", "198.51.100.7,203.0.113.30:443,tcp",
			"-packet", "192.0.2.99,203.0.113.30:443,tcp",
			"-packet", "198.51.100.7,203.0.113.40:25,tcp",
			"-packet", "172.18.0.11,203.0.113.40:25,tcp",
			"-packet", "fd00:10:244:1::5,[fd00:10:96::50]:80,tcp",
			"-packet", "10.244.1.5,10.96.0.53:53,udp",
			"-packet", "10.244.1.5,10.96.0.70:80,tcp",
			"-packet", "10.244.1.5,10.96.0.10:81,tcp",
			"-packet", "10.244.1.5,10.96.200.1:80,tcp",
			"-packet", "10.244.1.5,203.0.113.30:80,tcp",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"-f", filepath.Join("..", "quickstart", "manifests"), "-node", "node-1", "-o", "json"}, tt.args...)
			var stdout, stderr bytes.Buffer
			if code := run(args, nil, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
				t.Fatalf("exit status %d, standard error:\n%s", code, &stderr)
			}
			file := filepath.Join("testdata", tt.name+".json")
			if *update {
				if err := os.WriteFile(file, stdout.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, file, strings.Split(stdout.String(), "\n"), strings.Split(string(want), "\n"))
		})
	}
}
