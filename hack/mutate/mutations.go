package main

// mutations lists the faults. What they change must be in the file exactly once, so
// that a change of the backend cannot make one of them ineffective unnoticed.
func mutations() []mutation {
	return []mutation{
		{
			name: "masquerade mark is not set", file: "shared.go",
			old: `return l.setMark() + " " + gotoChain(cluster)`, new: `return gotoChain(cluster)`,
			scenarios: "external-cluster",
		},
		{
			name: "reject and drop are swapped", file: "shared.go",
			old:       "case shape.Reject:\n\t\treturn gotoChain(chainRefuse)\n\tcase shape.Drop:\n\t\treturn ruleDrop",
			new:       "case shape.Reject:\n\t\treturn ruleDrop\n\tcase shape.Drop:\n\t\treturn gotoChain(chainRefuse)",
			scenarios: "no-endpoints|none-here",
		},
		{
			name: "source ranges are ignored", file: "compile.go",
			old: "if fe.Restricted {", new: "if fe.Restricted && fe.Port == 0 {",
			scenarios: "source-ranges",
		},
		{
			name: "slots are off by one", file: "compile.go",
			old: "k.n = uint32(pick.offset() + i)", new: "k.n = uint32(pick.offset() + i + 1)",
			scenarios: "clusterip-balances",
		},
		{
			name: "last slot is never chosen", file: "shared.go",
			old: "f.translateSlot(s, s.size)", new: "f.translateSlot(s, max(1, s.size-1))",
			scenarios: "clusterip-balances",
		},
		{
			name: "hairpin is forgotten", file: "chains.go",
			old: "translatedTo(chainHairpin)", new: "translatedTo(chainClusterIPs)",
			scenarios: "hairpin",
		},
		{
			name: "cluster pool instead of the local one", file: "shared.go",
			old: "case shape.Local:\n\t\treturn gotoChain(local)", new: "case shape.Local:\n\t\treturn gotoChain(cluster)",
			scenarios: "external-local-keeps",
		},
		{
			name: "local slots hold the cluster pool", file: "compile.go",
			old: "t.slots(p, true, s.local)", new: "t.slots(p, true, s.cluster[:min(len(s.local), len(s.cluster))])",
			scenarios: "local",
		},
		{
			name: "node is not told from outside", file: "shared.go",
			old: "if node != outside {", new: "if node != outside && node == pod {",
			scenarios: "external-local",
		},
		{
			name: "pods are not told from others", file: "shared.go",
			old: "if pod != node || node != outside {", new: "if pod != node && node != outside && pod == outside {",
			scenarios: "external-local|clusterip-balances",
		},
		{
			name: "unused ports of a ClusterIP pass", file: "chains.go",
			old:       `filter("filter-forward", knftables.ForwardHook, chainNoEndpoint, chainClusterIPs)`,
			new:       `filter("filter-forward", knftables.ForwardHook, chainNoEndpoint)`,
			scenarios: "unused-port|unallocated",
		},
		{
			name: "a removed endpoint leaves a hole", file: "slots.go",
			old: "slots[holes[0]] = slots[last]", new: "slots[holes[0]] = slots[0]",
			scenarios: "change-endpoint|change-many",
		},
		{
			name: "affinity is not remembered", file: "affinity.go",
			old: "a.c.f.recallClient(a.clients()),\n", new: "",
			scenarios: "affinity",
		},
		{
			name: "local affinity looks into the cluster pool", file: "affinity.go",
			old: "dispatchPriority(pl.alive),\n", new: "dispatchPriority(a.clusterPool().alive),\n",
			scenarios: "affinity-with-policy-local",
		},
	}
}
