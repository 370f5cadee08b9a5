package nftables

import (
	"time"

	"github.com/vipkit/vipkit/backends/internal/sameaddr"
)

// A feature is something in the kernel that our rules need, and a piece of them that
// needs it.
type feature struct {
	name, minimum string
	program       program
}

// features returns pieces of the rules, each with as little else as possible.
func (f *family) features(o Options) []feature {
	l := &layout{table: o.Name, mark: o.MasqueradeMark, affinityClients: o.AffinityClients}
	pick := shared{kind: pickChain, proto: "tcp", size: 2}
	return []feature{
		{"NAT", "Linux 5.2", piece(hookedAt(hook{"nat", "prerouting", priorityDNAT}))},
		{"dnat by a map and numgen", "Linux 5.7", piece(pick.chain(f, l), boxEndpoints("tcp", false))},
		{"masquerade", "Linux 5.2", piece(hookedAt(
			hook{"nat", "postrouting", prioritySNAT}, l.masqueradeMarked(), sameaddr.NFT(f.ip)[0]))},
		{"fib", "Linux 4.10", piece(regular(f.localBut(nil, ruleReturn), localOnly+" "+ruleReturn))},
		{"reject and ct", "Linux 4.10", piece(hookedAt(hook{"filter", "forward", priorityFilter}, newUntranslated(ruleReject)))},
		{"ranges in concatenations", "Linux 5.6", piece(regular(f.restrictAddress()), boxRestricted, boxAllowed)},
		{"maps that packets write", "Linux 5.13", f.affinityPiece(l)},
	}
}

func regular(rules ...string) chain { return chain{name: "probe", rules: rules} }

func hookedAt(h hook, rules ...string) chain { return chain{name: "probe", hook: &h, rules: rules} }

// piece returns a chain and the boxes that it names.
func piece(c chain, names ...string) program {
	p := program{chains: []chain{c}}
	for _, b := range boxes() {
		for _, n := range names {
			if b.name == n {
				p.boxes = append(p.boxes, b)
			}
		}
	}
	return p
}

func (f *family) affinityPiece(l *layout) program {
	clients, _ := privateBox(affinityPrefix+"probe"+suffixClients, l.affinityClients)
	slots, _ := privateBox(affinityPrefix+"probe"+suffixSlotsCluster, l.affinityClients)
	return program{boxes: []box{clients, slots}, chains: []chain{regular(
		forgetPriority, f.recallClient(clients.name), f.forgetClient(clients.name, 1), f.rememberClient(clients.name, 1, time.Hour),
		chooseSlot(2)+" "+dispatchPriority(slots.name),
	)}}
}
