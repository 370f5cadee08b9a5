package main

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// The answer, as JSON. Every key is always present: lists are empty rather
// than null, and a text that does not apply is "".
type (
	answer struct {
		Ports     []portAnswer     `json:"ports"`
		Packets   []packetAnswer   `json:"packets"`
		Conflicts []conflictAnswer `json:"conflicts"`
		Problems  []problemAnswer  `json:"problems"`
		Rules     string           `json:"rules"`
	}

	portAnswer struct {
		Name                string           `json:"name"`
		Protocol            string           `json:"protocol"`
		Family              string           `json:"family"`
		AffinitySeconds     int              `json:"affinitySeconds"`
		HealthCheckNodePort int              `json:"healthCheckNodePort"`
		Cluster             []string         `json:"cluster"`
		Local               []string         `json:"local"`
		Topology            topologyAnswer   `json:"topology"`
		Frontends           []frontendAnswer `json:"frontends"`
	}

	topologyAnswer struct {
		Mode   string `json:"mode"`
		Reason string `json:"reason"`
	}

	frontendAnswer struct {
		Kind    string `json:"kind"`
		Address string `json:"address"`
		// Allow is the one list that may be null: everybody is let in. An empty
		// list lets nobody in.
		Allow   []string      `json:"allow"`
		Actions actionAnswers `json:"actions"`
	}

	actionAnswers struct {
		Pod     actionAnswer `json:"pod"`
		Node    actionAnswer `json:"node"`
		Outside actionAnswer `json:"outside"`
	}

	actionAnswer struct {
		Verdict    string `json:"verdict"`
		Pool       string `json:"pool"`
		Masquerade bool   `json:"masquerade"`
	}

	packetAnswer struct {
		Packet     string   `json:"packet"`
		Origin     string   `json:"origin"`
		Verdict    string   `json:"verdict"`
		Endpoints  []string `json:"endpoints"`
		Masquerade bool     `json:"masquerade"`
		Exempt     []string `json:"exempt"`
		Hairpin    []string `json:"hairpin"`
		Port       string   `json:"port"`
		Reason     string   `json:"reason"`
	}

	conflictAnswer struct {
		Address  string `json:"address"`
		Protocol string `json:"protocol"`
		Owner    string `json:"owner"`
		Loser    string `json:"loser"`
	}

	problemAnswer struct {
		Object string `json:"object"`
		Field  string `json:"field"`
		Error  string `json:"error"`
	}
)

// sort puts the lists in the order that the answer promises, which is by the
// bytes of the texts and so not always that of the plan: a-b/x comes before a/x.
func (a *answer) sort() {
	slices.SortFunc(a.Ports, func(x, y portAnswer) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Protocol, y.Protocol), strings.Compare(x.Family, y.Family))
	})
	slices.SortFunc(a.Conflicts, func(x, y conflictAnswer) int {
		return cmp.Or(strings.Compare(x.Address, y.Address), strings.Compare(x.Protocol, y.Protocol),
			strings.Compare(x.Loser, y.Loser), strings.Compare(x.Owner, y.Owner))
	})
	slices.SortFunc(a.Problems, func(x, y problemAnswer) int {
		return cmp.Or(strings.Compare(x.Object, y.Object), strings.Compare(x.Field, y.Field), strings.Compare(x.Error, y.Error))
	})
}

func writeJSON(w io.Writer, a *answer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(a)
}
