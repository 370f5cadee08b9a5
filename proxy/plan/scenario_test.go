package plan_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/sections"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

var update = flag.Bool("update", false, "write the plans and answers into testdata")

// TestScenarios makes a Plan of the objects in each file of testdata and compares
// it and its answers to packets with what the file says.
//
// A file has a description, config.yaml, objects.yaml, the plan, what the
// trackers report, and packets: "SOURCE[%INTERFACE] > ADDRESS:PORT[/PROTOCOL] ->
// ORIGIN: ANSWER (REASON)". The answer lists the endpoints, with "masq" where the source
// becomes the node's. With -update, all but the input is written anew.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := sections.Parse(string(data))
			out := play(t, in).String()
			if *update {
				if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(in.String(), out); d != "" {
				t.Errorf("%s\n(-want +got):\n%s", strings.TrimSpace(in.About), d)
			}
		})
	}
}

// play returns the file as it shall be.
func play(t *testing.T, in sections.File) sections.File {
	t.Helper()
	section := map[string]string{}
	for _, s := range in.Sections {
		section[s.Name] = s.Text
	}
	input, reports := readObjects(t, section["objects.yaml"])
	p, _ := plan.New(readConfig(t, section["config.yaml"])).Update(input)
	out := sections.File{About: in.About}
	add := func(name, text string) {
		if text != "" {
			out.Sections = append(out.Sections, sections.Section{Name: name, Text: text + "\n"})
		}
	}
	add("config.yaml", strings.TrimRight(section["config.yaml"], "\n")+"\n")
	add("objects.yaml", strings.TrimRight(section["objects.yaml"], "\n")+"\n")
	add("reports", strings.Join(reports, ""))
	add("plan", p.String())
	add("packets", strings.TrimRight(packets(t, p, section["packets"]), "\n"))
	return out
}

func readConfig(t *testing.T, data string) plan.Config {
	t.Helper()
	var c struct {
		Node, Zone                                                          string
		Addresses, PodCIDRs, PodInterfaces, NodePortAddresses, ServiceCIDRs []string
		MasqueradeAll, DenyInvalidRanges                                    bool
	}
	if err := yaml.UnmarshalStrict([]byte(data), &c); err != nil {
		t.Fatal(err)
	}
	cfg := plan.Config{
		Node:              plan.Node{Name: c.Node, Zone: c.Zone},
		NodePortAddresses: selector(t, c.NodePortAddresses...),
		PodInterfaces:     c.PodInterfaces, MasqueradeAll: c.MasqueradeAll, DenyInvalidRanges: c.DenyInvalidRanges,
	}
	for _, a := range c.Addresses {
		cfg.Node.Addresses = append(cfg.Node.Addresses, addr(a))
	}
	for _, p := range c.PodCIDRs {
		cfg.Node.PodCIDRs = append(cfg.Node.PodCIDRs, prefix(p))
	}
	for _, p := range c.ServiceCIDRs {
		cfg.ServiceCIDRs = append(cfg.ServiceCIDRs, prefix(p))
	}
	return cfg
}

// readObjects gives Services and EndpointSlices to the trackers.
func readObjects(t *testing.T, data string) (in plan.Input, reports []string) {
	t.Helper()
	services := service.NewServiceChangeTracker(service.Options{})
	slices := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	for doc := range strings.SplitSeq(data, "\n---\n") {
		var kind struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		decode(t, doc, &kind)
		var errs field.ErrorList
		switch kind.Kind {
		case "Service":
			var s corev1.Service
			decode(t, doc, &s)
			_, errs = services.Set(&s)
		case "EndpointSlice":
			var s discoveryv1.EndpointSlice
			decode(t, doc, &s)
			_, errs = slices.Set(&s)
		default:
			t.Fatalf("unknown kind %q in\n%s", kind.Kind, doc)
		}
		for _, e := range errs {
			reports = append(reports, fmt.Sprintf("%s %s/%s: %s\n", kind.Kind, kind.Metadata.Namespace, kind.Metadata.Name, e))
		}
	}
	return plan.Input{Services: services.Take().Services, Endpoints: slices.Take().Sets}, reports
}

func decode(t *testing.T, doc string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(doc), into); err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
}

// packets writes the answers behind the packets of a section, in columns.
func packets(t *testing.T, p *plan.Plan, section string) string {
	t.Helper()
	var questions, answers []string
	width := 0
	for line := range strings.Lines(section) {
		question, _, _ := strings.Cut(strings.TrimSpace(line), "->")
		question = strings.Join(strings.Fields(question), " ")
		questions = append(questions, question)
		width = max(width, len(question))
		if question == "" {
			answers = append(answers, "")
			continue
		}
		tr := p.Trace(readPacket(t, question))
		answers = append(answers, fmt.Sprintf("-> %s: %s (%s)", tr.Origin, fate(tr), tr.Reason))
	}
	var b strings.Builder
	for i, q := range questions {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-*s %s", width, q, answers[i]), " ") + "\n")
	}
	return b.String()
}

func readPacket(t *testing.T, text string) plan.Packet {
	t.Helper()
	source, dst, ok := strings.Cut(text, " > ")
	if !ok {
		t.Fatalf("packet %q has no >", text)
	}
	source, iface, _ := strings.Cut(source, "%")
	p := packet(source, dst)
	p.Interface = iface
	return p
}

// fate writes what happens to a packet, at each endpoint.
func fate(tr plan.Trace) string {
	if tr.Verdict != plan.Forward {
		return tr.Verdict.String()
	}
	words := make([]string, len(tr.Endpoints))
	for i, e := range tr.Endpoints {
		words[i] = e.String()
		switch {
		case slices.Contains(tr.Hairpin, e), tr.Masquerade && !slices.Contains(tr.Exempt, e):
			words[i] += " masq"
		}
	}
	return strings.Join(words, " | ")
}
