package snapshot

import (
	"time"

	"conclave/engine/files/artifact"
)

// Settle starts a loan now and reports whether all later changes to its files can be detected.
func Settle(l *Loan) bool {
	l.lent = time.Now()
	return Settled(l)
}

// Settled reports whether every change of the files of a loan since its begin shows.
func Settled(l *Loan) bool {
	for _, all := range []map[string]artifact.Identity{l.is, l.dirs} {
		for _, is := range all {
			if !is.Settled(l.lent.UnixNano()) {
				return false
			}
		}
	}
	return true
}

// Hasten lets a loan begin before its files were written.
func Hasten(l *Loan) { l.lent = time.Unix(0, 0) }
