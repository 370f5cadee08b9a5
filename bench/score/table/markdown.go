package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// The table stands between these lines of the document.
const (
	begin = "<!-- begin score: written by make score -->"
	end   = "<!-- end score -->"
)

// markdown returns how many scenarios each proxy passes, a line for each scenario, and the reasons that the lines name.
func (r *results) markdown(why []reason) string {
	var b strings.Builder
	b.WriteString("| proxy | scenarios passed |\n|---|---|\n")
	for _, p := range r.proxies {
		passed, played := 0, 0
		for _, byProxy := range r.scenarios {
			if o, ok := byProxy[p]; ok {
				played++
				if o.action == "pass" {
					passed++
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %d of %d |\n", p, passed, played)
	}
	var named []int
	fmt.Fprintf(&b, "\n| scenario | %s |\n|---|%s\n", strings.Join(r.proxies, " | "), strings.Repeat("---|", len(r.proxies)))
	for _, scenario := range sorted(r.scenarios) {
		cells := make([]string, 0, len(r.proxies))
		for _, p := range r.proxies {
			o := r.scenarios[scenario][p]
			cell := o.action
			if i := find(why, p, scenario); o.action == "fail" && i >= 0 {
				cell = "fails: " + why[i].id
				named = append(named, i)
			}
			cells = append(cells, cell)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", scenario, strings.Join(cells, " | "))
	}
	slices.Sort(named)
	b.WriteString("\n| id | why |\n|---|---|\n")
	seen := map[string]bool{}
	for _, i := range named {
		if !seen[why[i].id] {
			seen[why[i].id] = true
			fmt.Fprintf(&b, "| %s | %s |\n", why[i].id, why[i].why)
		}
	}
	return b.String()
}

// write replaces what stands between the marks of the document.
func write(doc, table string) error {
	text, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s: no lines %q and %q", doc, begin, end)
	}
	return os.WriteFile(doc, []byte(before+begin+"\n\n"+table+"\n"+end+after), 0o644)
}
