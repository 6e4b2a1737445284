package team

// What the tests of the pure parts look at.
type (
	Terms     = terms
	Standing  = standing
	Admission = admission
)

var (
	Admit   = admit
	Overlap = func(a, b string) float64 { return overlap(words(a), words(b)) }
)
