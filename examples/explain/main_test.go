package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// explain runs the program on objects, one document each, as node n1 in zone za.
func explain(t *testing.T, objects []string, args ...string) *answer {
	t.Helper()
	args = append([]string{"-f", "-", "-node", "n1", "-zone", "za", "-o", "json"}, args...)
	var stdout, stderr bytes.Buffer
	if code := run(args, strings.NewReader(strings.Join(objects, "\n---\n")), &stdout, &stderr); code != exitOK {
		t.Fatalf("run(%q) = %d, standard error:\n%s", args, code, &stderr)
	}
	a := &answer{}
	dec := json.NewDecoder(&stdout)
	dec.DisallowUnknownFields()
	if err := dec.Decode(a); err != nil {
		t.Fatalf("answer: %v", err)
	}
	return a
}

// serviceYAML returns a Service of the given "namespace/name", with the fields of spec in
// flow style and an ingress for each IP.
func serviceYAML(name, spec string, ips ...string) string {
	namespace, short, _ := strings.Cut(name, "/")
	var ingress []string
	for _, ip := range ips {
		ingress = append(ingress, fmt.Sprintf("{ip: %q}", ip))
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s}, spec: {%s}, status: {loadBalancer: {ingress: [%s]}}}",
		namespace, short, spec, strings.Join(ingress, ", "))
}

// sliceYAML returns an EndpointSlice of the Service "namespace/name" with one port p/8080.
// Endpoints are "address", or "address@node", with the condition ready.
func sliceYAML(svc string, eps ...string) string {
	namespace, short, _ := strings.Cut(svc, "/")
	family, list := "IPv4", make([]string, 0, len(eps))
	for _, e := range eps {
		addr, node, _ := strings.Cut(e, "@")
		if strings.Contains(addr, ":") {
			family = "IPv6"
		}
		list = append(list, fmt.Sprintf("{addresses: [%q], nodeName: %q}", addr, node))
	}
	return fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: %s, ports: [{name: p, port: 8080}], endpoints: [%s],
  metadata: {namespace: %s, name: %s-%s, labels: {kubernetes.io/service-name: %s}}}`,
		family, strings.Join(list, ", "), namespace, short, strings.ToLower(family), short)
}

// webYAML is the Service of most tests: default/web with port p/80 on 10.96.0.10.
func webYAML(more string, ips ...string) string {
	return serviceYAML("default/web", "clusterIP: 10.96.0.10, ports: [{name: p, port: 80}]"+more, ips...)
}

// names lists ports as "namespace/name:port protocol family".
func names(a *answer) []string {
	var list []string
	for _, p := range a.Ports {
		list = append(list, p.Name+" "+p.Protocol+" "+p.Family)
	}
	return list
}

// frontends lists the frontends of all ports as "kind address pod node outside".
func frontends(a *answer) []string {
	var list []string
	for _, p := range a.Ports {
		for _, f := range p.Frontends {
			list = append(list, fmt.Sprintf("%s %s %s %s %s", f.Kind, f.Address, f.Actions.Pod, f.Actions.Node, f.Actions.Outside))
		}
	}
	return list
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n\t%s\nwant:\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestExitUsage(t *testing.T) {
	dir := t.TempDir()
	good, bad, missing := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "missing.yaml")
	for name, data := range map[string]string{good: webYAML(""), bad: webYAML("") + "\n---\nkind: [\n"} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ok := []string{"-f", good, "-node", "n1"}
	tests := []struct {
		name string
		args []string
		want string // part of standard error
	}{
		{"no -f", []string{"-node", "n1"}, "-f is required"},
		{"no -node", []string{"-f", good}, "-node is required"},
		{"unknown flag", append(ok, "-colour"), "-colour"},
		{"argument", append(ok, "more"), `"more"`},
		{"output", append(ok, "-o", "yaml"), "-o"},
		{"node IP", append(ok, "-node-ip", "10.0.0.1,10.0.0.2"), "-node-ip"},
		{"pod CIDR", append(ok, "-pod-cidr", "10.244.0.0"), "-pod-cidr"},
		{"Service CIDR", append(ok, "-service-cidr", "10.96.0.0/33"), "-service-cidr"},
		{"node port addresses", append(ok, "-nodeport-addresses", "secondary"), "-nodeport-addresses"},
		{"unknown backend", append(ok, "-rules", "ebpf"), "no such backend"},
		{"missing file", []string{"-f", missing, "-node", "n1"}, missing},
		{"unparsable file", []string{"-f", bad, "-node", "n1"}, bad + ": document 2: "},
		{"packet without protocol", append(ok, "-packet", "10.0.0.1,10.96.0.10:80"), "-packet"},
		{"packet with five parts", append(ok, "-packet", "10.0.0.1,10.96.0.10:80,tcp,eth0,x"), "-packet"},
		{"packet of two families", append(ok, "-packet", "fd00::1,10.96.0.10:80,tcp"), "one family"},
		{"packet with a bad source", append(ok, "-packet", "here,10.96.0.10:80,tcp"), `"here"`},
		{"packet with a bad destination", append(ok, "-packet", "10.0.0.1,there:80,tcp"), `"there"`},
		{"packet without port", append(ok, "-packet", "10.0.0.1,10.96.0.10,tcp"), `"10.96.0.10"`},
		{"packet with port 0", append(ok, "-packet", "10.0.0.1,10.96.0.10:0,tcp"), `"0"`},
		{"packet with a bad port", append(ok, "-packet", "10.0.0.1,10.96.0.10:65536,tcp"), `"65536"`},
		{"packet with a bad protocol", append(ok, "-packet", "10.0.0.1,10.96.0.10:80,icmp"), `"icmp"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(tt.args, strings.NewReader(""), &stdout, &stderr); code != exitUsage {
				t.Errorf("exit status %d, want %d", code, exitUsage)
			}
			if !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("standard error has no %q:\n%s", tt.want, &stderr)
			}
			if stdout.Len() > 0 {
				t.Errorf("standard output is not empty:\n%s", &stdout)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-h"}, nil, &stdout, &stderr); code != exitOK || !strings.Contains(stderr.String(), "-nodeport-addresses") {
		t.Errorf("exit status %d, standard error:\n%s", code, &stderr)
	}
}

func TestExitFailed(t *testing.T) {
	for _, format := range []string{outputText, outputJSON} {
		var stderr bytes.Buffer
		code := run([]string{"-f", "-", "-node", "n1", "-o", format}, strings.NewReader(webYAML("")), brokenWriter{}, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "disk full") {
			t.Errorf("-o %s: exit status %d, want %d; standard error:\n%s", format, code, exitFailed, &stderr)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestNotes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	input := "{apiVersion: apps/v1, kind: Deployment}\n---\n" + webYAML("")
	if code := run([]string{"-f", "-", "-node", "n1", "-o", "json"}, strings.NewReader(input), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	if got, want := stderr.String(), "explain: -: document 1: apps/v1 Deployment is skipped\n"; got != want {
		t.Errorf("standard error %q, want %q", got, want)
	}
	if !json.Valid(stdout.Bytes()) {
		t.Errorf("standard output is not only the answer:\n%s", &stdout)
	}
}

func TestNothing(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-f", "-", "-node", "n1", "-o", "json"}, strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, stdout.Bytes()); err != nil {
		t.Fatal(err)
	}
	if got, want := compact.String(), `{"ports":[],"packets":[],"conflicts":[],"problems":[],"rules":""}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
}
