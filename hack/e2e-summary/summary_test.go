package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const report = `[{"SpecReports": [
 {"LeafNodeType": "BeforeSuite", "State": "passed"},
 {"ContainerHierarchyTexts": ["[sig-network] Services"], "LeafNodeText": "serves", "LeafNodeType": "It", "State": "passed"},
 {"ContainerHierarchyTexts": ["[sig-network] Services"], "LeafNodeText": "was not asked for", "LeafNodeType": "It", "State": "skipped"},
 {"ContainerHierarchyTexts": ["[sig-network] Services"], "LeafNodeText": "wants six nodes", "LeafNodeType": "It", "State": "skipped",
  "Failure": {"Message": "six nodes\nmore", "Location": {"FileName": "a/skip.go", "LineNumber": 7}}},
 {"ContainerHierarchyTexts": ["[sig-network] Services"], "LeafNodeText": "breaks", "LeafNodeType": "It", "State": "failed",
  "Failure": {"Message": "broken", "Location": {"FileName": "b.go", "LineNumber": 9}}}]}]`

func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		kubeProxy, reasons, want string
	}{
		"kube-proxy passes it":    {"passed [sig-network] Services breaks\n", "", "kube-proxy passes it"},
		"kube-proxy fails it too": {"failed [sig-network] Services breaks\n", "", "no reason on record"},
		"not run with kube-proxy": {"", "", "no reason on record"},
		"with a reason":           {"failed [sig-network] Services breaks\n", "mine | .* Services breaks | E1 | the kit has none\n", ""},
		"another's reason":        {"", "kube-proxy | .* Services breaks | E1 | the kit has none\n", "no reason on record"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) string {
				t.Helper()
				name = filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return name
			}
			write("results/kube-proxy", tc.kubeProxy)
			o := options{proxy: "mine", results: filepath.Join(dir, "results"), reasons: write("reasons", tc.reasons)}
			err := o.run(write("report.json", report))
			if got := errText(err); tc.want == "" && err != nil || !strings.Contains(got, tc.want) {
				t.Errorf("run: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results")
	if err := os.WriteFile(name, []byte("passed gone\npassed skips\npassed worse\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []test{{Name: "skips", State: stateSkipped}, {Name: "worse", State: "failed"}, {Name: "new", State: stateSkipped}}
	for _, tc := range []struct {
		merge bool
		want  string
	}{
		{true, "passed gone\nskipped new\npassed skips\nfailed worse\n"},
		{false, "skipped new\npassed skips\nfailed worse\n"},
	} {
		if err := record(name, tests, tc.merge); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != tc.want {
			t.Errorf("merge %t: %q, %v, want %q", tc.merge, got, err, tc.want)
		}
	}
}

func TestPrintsOnly(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(name, []byte(report), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (options{}).run(name); err != nil {
		t.Errorf("without a proxy, failures are judged: %v", err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestDocument(t *testing.T) {
	dir := t.TempDir()
	doc := filepath.Join(dir, "doc.md")
	begin, end := section().Lines()
	if err := os.WriteFile(doc, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "reasons"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), []byte(report), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "results"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := options{proxy: "kube-proxy", results: filepath.Join(dir, "results"), reasons: filepath.Join(dir, "reasons"), doc: doc, record: true}
	if err := o.run(filepath.Join(dir, "report.json")); err == nil {
		t.Error("a failed test without a reason is no error")
	}
	got, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n", "| kube-proxy | 1 failed, 1 passed, 1 skipped |", "| [sig-network] Services breaks | failed |  |", "wants six nodes | skipped |", "\nafter\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the document has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "old") || strings.Contains(string(got), "serves") {
		t.Errorf("the document has too much:\n%s", got)
	}
}
