package nftables

import (
	"testing"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

func TestMain(m *testing.M) { netlab.Main(m) }
