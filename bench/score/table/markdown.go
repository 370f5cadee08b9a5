package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vipkit/vipkit/internal/conformance"
)

// section is where the table stands in the document.
func section() conformance.Section { return conformance.Section{Name: "score", By: "make score"} }

// markdown returns how many scenarios each proxy passes, a line for each scenario, and the reasons that the lines name.
func (r *results) markdown(why []conformance.Reason) string {
	var b strings.Builder
	b.WriteString("| proxy | scenarios passed |\n|---|---|\n")
	for _, p := range r.proxies {
		passed, played := 0, 0
		for _, byProxy := range r.scenarios {
			if o, ok := byProxy[p]; ok {
				played++
				if o.action == pass {
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
			o, played := r.scenarios[scenario][p]
			cell := o.action
			if !played {
				cell = "not played"
			}
			if i := conformance.Find(why, p, scenario); o.action == "fail" && i >= 0 {
				cell = "fails: " + why[i].ID
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
		if !seen[why[i].ID] {
			seen[why[i].ID] = true
			fmt.Fprintf(&b, "| %s | %s |\n", why[i].ID, why[i].Why)
		}
	}
	return b.String()
}
