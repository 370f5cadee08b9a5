package backendtest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/sections"
)

// A scenario is one file of testdata: steps that are played in turn against one
// backend.
type scenario struct {
	name     string // of the file, without suffix
	about    string
	variants []variant
	listen   []string // additional servers, NAME:PORT
	steps    []step
}

// A variant is a family and a protocol that a scenario is played in. All variants of a
// scenario are in one plan, each with a copy of the objects in a namespace of its own.
type variant struct {
	family   corev1.IPFamily
	protocol corev1.Protocol
}

func (v variant) String() string { return string(v.family) + " " + string(v.protocol) }

func (v variant) suffix() string { return strings.TrimPrefix(string(v.family), "IPv") }

// namespace returns what a namespace of the file is called for this variant.
func (v variant) namespace(ns string) string {
	return strings.ToLower(fmt.Sprintf("%s-v%s-%s", ns, v.suffix(), v.protocol))
}

// A step is a change, and what is expected after it.
type step struct {
	about    string
	settings []setting // of the node; empty if they stay as they were
	objects  string    // YAML with variables
	deleted  []string  // "KIND NAMESPACE/NAME"
	failing  []string  // "NAMESPACE/NAME" of Services that the data plane refuses in this step
	expect   []line
}

// A setting is one line of a config section.
type setting struct {
	key    string
	values []string
}

// load reads all scenarios of a file system, by name.
func load(files fs.FS) ([]*scenario, error) {
	names, err := fs.Glob(files, "*.txtar")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("backendtest: no scenarios")
	}
	var out []*scenario
	var errs []error
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		s, err := parse(strings.TrimSuffix(path.Base(name), ".txtar"), data)
		if err != nil {
			errs = append(errs, fmt.Errorf("backendtest: scenario %s: %w", name, err))
			continue
		}
		out = append(out, s)
	}
	return out, errors.Join(errs...)
}

func parse(name string, data []byte) (*scenario, error) {
	file := sections.Parse(string(data))
	s := &scenario{name: name, about: strings.TrimSpace(file.About)}
	if s.about == "" {
		return nil, errors.New("it does not say what it is about")
	}
	s.variants = product([]string{"IPv4", "IPv6"}, []string{"TCP", "UDP"})
	var next step
	for _, f := range file.Sections {
		kind, about, _ := strings.Cut(f.Name, ":")
		switch kind {
		case "config":
			next.settings = append(next.settings, s.configure(parseSettings(f.Text))...)
		case "objects":
			next.objects += "\n---\n" + f.Text
		case "delete":
			next.deleted = append(next.deleted, lines(f.Text)...)
		case "refuse":
			next.failing = append(next.failing, lines(f.Text)...)
		case "expect":
			expect, err := parseExpect(f.Text)
			if err != nil {
				return nil, fmt.Errorf("section %q: %w", f.Name, err)
			}
			next.about, next.expect = strings.TrimSpace(about), expect
			s.steps = append(s.steps, next)
			next = step{}
		default:
			return nil, fmt.Errorf("unknown section %q", f.Name)
		}
	}
	return s, s.validate(next)
}

// configure takes the settings that are about the scenario, and returns those
// about the node.
func (s *scenario) configure(settings []setting) (node []setting) {
	families, protocols := []string{"IPv4", "IPv6"}, []string{"TCP", "UDP"}
	for _, c := range settings {
		switch c.key {
		case "families":
			families = c.values
		case "protocols":
			protocols = c.values
		case "listen":
			s.listen = append(s.listen, c.values...)
		default:
			node = append(node, c)
		}
	}
	if len(s.steps) == 0 {
		s.variants = product(families, protocols)
	}
	return node
}

func (s *scenario) validate(rest step) error {
	switch {
	case len(s.steps) == 0:
		return errors.New("it expects nothing")
	case rest.objects != "" || rest.deleted != nil || rest.settings != nil:
		return errors.New("nothing is expected after the last change")
	}
	b := newBook()
	for _, st := range s.steps {
		for _, l := range st.expect {
			for _, v := range s.variants {
				if err := l.validate(b, v); err != nil {
					return fmt.Errorf("%q: %w", l.text, err)
				}
			}
		}
	}
	return nil
}

func product(families, protocols []string) []variant {
	var out []variant
	for _, f := range families {
		for _, p := range protocols {
			out = append(out, variant{corev1.IPFamily(f), corev1.Protocol(p)})
		}
	}
	return out
}

// parseSettings reads lines of "key: value value ...".
func parseSettings(text string) []setting {
	var out []setting
	for _, l := range lines(text) {
		key, values, _ := strings.Cut(l, ":")
		out = append(out, setting{strings.TrimSpace(key), strings.Fields(values)})
	}
	return out
}

// lines returns the lines of a text that are neither empty nor comments.
func lines(text string) []string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return slices.DeleteFunc(all, func(l string) bool { return l == "" || strings.HasPrefix(l, "#") })
}
