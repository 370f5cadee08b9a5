package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	node, source := []string{"-node-name", "a"}, []string{"-source", "dir=" + dir}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no node", source, "-node-name is required"},
		{"a table no backend could have", append(append(node, source...), "-table", "a b"), "-table"},
		{"a prefix that iptables could not have", []string{"-cleanup", "-backend", "iptables", "-table", "much-too-long-a-name"}, "-table"},
		{"no source", node, "-source is required"},
		{"unknown flag", []string{"-nodes", "a"}, "-nodes"},
		{"argument", []string{"-cleanup", "now"}, `"now"`},
		{"unknown backend", []string{"-cleanup", "-backend", "ebpf"}, "ebpf"},
		{"unknown source", append(node, "-source", "file=x"), "dir=PATH"},
		{"no path", append(node, "-source", "dir="), "dir=PATH"},
		{"no folder", append(node, "-source", "dir="+filepath.Join(dir, "missing")), "missing"},
		{"a file", append(node, "-source", "dir="+file), "not a folder"},
		{"fault F18 a kubeconfig that is no file", append(node, "-source", "kubeconfig=/dev/zero"), "not a regular file"},
		{"negative timeout", []string{"-init-only", "-conntrack-udp-timeout", "-1s"}, "-conntrack-udp-timeout"},
		{"negative size", []string{"-init-only", "-conntrack-min", "-1"}, "-conntrack-min"},
		{"negative interval", append(append(node, source...), "-min-sync", "-1s"), "-min-sync"},
		{"full before min", append(append(node, source...), "-min-sync", "2s", "-full-sync", "1s"), "-full-sync"},
		{"bad range", append(append(node, source...), "-pod-cidr", "10.0.0.0"), "-pod-cidr"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := run(t.Context(), tt.args, streams{&out, &errs}); code != exitUsage {
				t.Errorf("code %d, want %d", code, exitUsage)
			}
			if !strings.Contains(errs.String(), tt.want) || out.Len() > 0 {
				t.Errorf("output %q, errors %q, want %q in the errors", &out, &errs, tt.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, streams{&out, &errs}); code != exitOK {
		t.Errorf("code %d", code)
	}
	for _, name := range []string{
		"node", "node-name", "zone", "node-ip", "pod-cidr", "pod-interface", "nodeport-addresses", "masquerade-all", "service-cidr",
		"deny-invalid-ranges", "backend", "source", "once", "cleanup", "healthz-address", "metrics-address", "table", "min-sync", "full-sync", "check",
		"init-only", "conntrack-sysctls", "conntrack-max-per-core", "conntrack-min", "conntrack-tcp-timeout-established", "conntrack-tcp-timeout-close-wait",
		"conntrack-tcp-be-liberal", "conntrack-udp-timeout", "conntrack-udp-timeout-stream",
	} {
		if !strings.Contains(errs.String(), "  -"+name+" ") && !strings.Contains(errs.String(), "  -"+name+"\n") {
			t.Errorf("help has no -%s", name)
		}
	}
}

func TestSource(t *testing.T) {
	for text, want := range map[string]sourceFlag{
		"dir=/a":            {dir: "/a"},
		"dir=a=b":           {dir: "a=b"},
		"kubeconfig":        {cluster: true},
		"kubeconfig=/k.cfg": {cluster: true, kubeconfig: "/k.cfg"},
	} {
		var got sourceFlag
		if err := got.set(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}
