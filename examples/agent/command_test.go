package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/vipkit/vipkit/backends/backendtest"
)

// fromEnvironment is a program for [backendtest.Command]: it makes flags of its variables.
const fromEnvironment = `#!/bin/sh
set -f
IFS=,
set -- -source "dir=$OBJECTS" -node-name "$NODE_NAME" -zone "$NODE_ZONE" -masquerade-all="$MASQUERADE_ALL" -deny-invalid-ranges="$DENY_INVALID_RANGES"
for v in $NODE_IPS; do set -- "$@" -node-ip "$v"; done
for v in $POD_CIDRS; do set -- "$@" -pod-cidr "$v"; done
for v in $POD_INTERFACES; do set -- "$@" -pod-interface "$v"; done
for v in $SERVICE_CIDRS; do set -- "$@" -service-cidr "$v"; done
for v in $NODEPORT_ADDRESSES; do set -- "$@" -nodeport-addresses "$v"; done
exec env ` + asAgent + `=1 "$AGENT" "$@"
`

// TestCommand judges the agent as a program of which nothing is known, as another proxy would be. The scenarios between them need
// each setting, a change of one, and a change of objects.
func TestCommand(t *testing.T) {
	all, some := backendtest.Scenarios(), fstest.MapFS{}
	for _, name := range []string{
		"change-endpoint-added-and-removed", "hints-zone", "masquerade-all-changes-at-run-time", "nodeport-addresses-by-range",
		"pod-interfaces-by-prefix", "service-cidr-unallocated-address-drops", "source-ranges-none-valid",
	} {
		text, err := fs.ReadFile(all, name+".txtar")
		if err != nil {
			t.Fatal(err)
		}
		some[name+".txtar"] = &fstest.MapFile{Data: text}
	}
	program := filepath.Join(t.TempDir(), "proxy")
	if err := os.WriteFile(program, []byte(fromEnvironment), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	backendtest.Run(t, backendtest.Config{
		NewProxy: func(t *testing.T) backendtest.Proxy {
			return &backendtest.Command{
				Run:     "env AGENT='" + os.Args[0] + "' " + program,
				CleanUp: "env " + asAgent + "=1 '" + os.Args[0] + "' -cleanup",
				Dir:     t.TempDir(),
				Log:     t.Output(),
			}
		},
		Asynchronous: true,
		Scenarios:    some,
		Limits:       []backendtest.Limit{backendtest.NoLoopbackNodePorts, backendtest.StaleUDPEnds},
	})
}
