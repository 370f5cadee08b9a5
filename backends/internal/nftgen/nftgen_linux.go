package nftgen

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Read returns the generation in the network namespace of the calling thread.
func Read() (uint32, error) {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return 0, fmt.Errorf("read generation of nftables: %w", err)
	}
	if len(answers) != 1 || len(answers[0]) < nl.SizeofNfgenmsg {
		return 0, fmt.Errorf("read generation of nftables: %d answers", len(answers))
	}
	attrs, err := nl.ParseRouteAttr(answers[0][nl.SizeofNfgenmsg:])
	if err != nil {
		return 0, fmt.Errorf("read generation of nftables: %w", err)
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.NFTA_GEN_ID && len(a.Value) == 4 {
			return binary.BigEndian.Uint32(a.Value), nil
		}
	}
	return 0, fmt.Errorf("read generation of nftables: no number")
}
