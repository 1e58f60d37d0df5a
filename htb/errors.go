package htb

import "errors"

// What a caller may want to tell apart with errors.Is. An error is neither an
// admission nor a refusal: nothing was counted or charged.
var (
	// ErrUnknown is wrapped when no class has the path.
	ErrUnknown = errors.New("unknown class")
	// ErrNotLeaf is wrapped when the path names a class that has children: only
	// leaves take traffic.
	ErrNotLeaf = errors.New("not a leaf")
	// ErrName is wrapped for a name that is empty, over MaxName bytes or not UTF-8.
	ErrName = errors.New("bad name")
	// ErrCost is wrapped for a cost that no state of the buckets could admit.
	// Unlike other errors it is counted, as wanted and rejected.
	ErrCost = errors.New("cost can never pass")
	// ErrSettled is returned by a second Settle.
	ErrSettled = errors.New("htb: already settled")
)
