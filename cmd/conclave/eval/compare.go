package eval

import (
	"errors"
	"fmt"

	"conclave/cmd/conclave/hall"
	"conclave/engine/eval"
)

// comparison is the JSON output of compare.
type comparison struct {
	A     string      `json:"a"`
	B     string      `json:"b"`
	Pairs []eval.Pair `json:"pairs"` // one pair for each arm, b less a
}

// compare prints the differences between two evaluations for the arms that both have.
func compare(c *hall.CLI, a, b string) error {
	first, err := read(a)
	second, errB := read(b)
	if err = errors.Join(err, errB); err != nil {
		return fmt.Errorf("%w; name the IDs or the directories of two evaluations", err)
	}
	if first.settings.DataHash != second.settings.DataHash {
		c.Warnf("the two evaluations are of different files of questions; questions with the same id are compared")
	}
	arms, err := second.settings.arms()
	if err != nil {
		return err
	}
	result := comparison{A: a, B: b, Pairs: eval.Across(first.samples, second.samples, arms)}
	if len(result.Pairs) == 0 {
		return hall.Exitf(hall.ExitNoAnswer, "%s and %s have no arm with the same questions", a, b)
	}
	if c.Scripted() {
		return c.PrintJSON(result)
	}
	for i, p := range result.Pairs {
		result.Pairs[i].A, result.Pairs[i].B = fmt.Sprintf("%s of %s", p.A, b), a
	}
	return c.Print(hall.Table(pairTable(result.Pairs)))
}
