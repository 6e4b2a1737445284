package eval

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Condition is a lower bound, given by --fail-under, for the accuracy of an arm.
type Condition struct {
	text   string
	arm    string
	strict bool // more than, not at least
	than   string
	least  float64 // the bound if than is empty
}

var comparison = regexp.MustCompile(`^\s*(\S+?)\s*(>=|>)\s*(\S+)\s*$`)

// ParseCondition reads a condition on the arms of an evaluation: a number for the team, or a
// comparison such as team>=single or single>0.5.
func ParseCondition(text string, arms []Arm) (Condition, error) {
	c := Condition{text: strings.TrimSpace(text), arm: string(Team)}
	wrong := fmt.Errorf("%q is not a condition; give an accuracy such as 0.8, or a comparison of arms such as team>=single", text)
	value := c.text
	if m := comparison.FindStringSubmatch(text); m != nil {
		c.arm, c.strict, value = m[1], m[2] == ">", m[3]
	}
	if strings.HasSuffix(c.arm, "=") { // of =>
		return c, wrong
	}
	var err error
	if c.least, err = strconv.ParseFloat(value, 64); err != nil {
		c.than = value
		if c.than == c.text {
			return c, wrong
		}
	} else if !(c.least >= 0 && c.least <= 1) {
		return c, fmt.Errorf("%q: an accuracy is from 0 to 1", text)
	}
	for _, name := range []string{c.arm, c.than} {
		if name != "" && !known(name, arms) {
			return c, fmt.Errorf("%q: there is no arm %s; add it to --arms", text, name)
		}
	}
	return c, nil
}

func known(name string, arms []Arm) bool {
	for _, arm := range arms {
		if arm.Name == name {
			return true
		}
	}
	return false
}

// Check returns an error that names both accuracies if a summary falls below the condition.
func (c Condition) Check(s Summary) error {
	have, least, of := s.Arms[c.arm].Accuracy, c.least, ""
	if c.than != "" {
		least, of = s.Arms[c.than].Accuracy, ", the accuracy of "+c.than+","
	}
	if have > least || have == least && !c.strict {
		return nil
	}
	bound := "at least"
	if c.strict {
		bound = "more than"
	}
	return fmt.Errorf("below --fail-under %s: the accuracy of %s is %.3f, and %s %.3f%s is demanded", c.text, c.arm, have, bound, least, of)
}
