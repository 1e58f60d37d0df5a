package sim

import (
	"github.com/go-sluice/sluice/htb"
)

// excess is what was admitted of a class that gateways share above what its ceil brought
// since: the most that any window which ends now holds above ceil*window.
// INVARIANT: x is that of the time at, in seconds, and not below 0.
type excess struct{ x, at float64 }

// shared says whether gateways share the class.
func shared(s *htb.Spec) bool { return s.Remote || s.Sync > 0 }

// admit books units at a time, which does not go back, and returns by how much the worst
// window that ends there goes over cburst + ceil*window.
func (e *excess) admit(s *htb.Spec, now float64, units int64) float64 {
	e.x = max(0, e.x-(now-e.at)*s.Ceil.PerSecond()) + float64(units)
	e.at = now
	return e.x - float64(s.CBurst)
}

// settled says whether nothing is left of it, so that it equals one of a class never seen.
func (e *excess) settled(s *htb.Spec, now float64) bool {
	return e.x <= (now-e.at)*s.Ceil.PerSecond()
}

// exceed books an admission for every class on the path of a leaf that gateways share.
func (n *node) exceed(now float64, units int64) {
	for ; n != nil; n = n.parent {
		if shared(n.spec) {
			n.row.over = max(n.row.over, n.admit(n.spec, now, units))
		}
	}
}
