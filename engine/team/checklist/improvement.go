package checklist

import (
	"encoding/json"
	"slices"
)

// The impacts of an improvement, from small to large.
const (
	Incremental    = "incremental"
	Structural     = "structural"
	Transformative = "transformative"
)

// improvement is one way to make a criterion pass.
type improvement struct {
	plan    string
	sources []string
	impact  string
}

// improvementsOf reads what is proposed for a criterion, without what has no
// plan.
func improvementsOf(raw json.RawMessage) []improvement {
	var all []improvement
	for _, item := range list(raw) {
		one := improvement{plan: word(item), impact: Incremental}
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) == nil && fields != nil {
			one.plan = word(fields["plan"])
			one.sources = words(fields["sources"])
			if impact := word(fields["impact"]); impact == Structural || impact == Transformative {
				one.impact = impact
			}
		}
		if one.plan != "" {
			all = append(all, one)
		}
	}
	return all
}

// words are the texts of a list, without blank ones and what is no text.
func words(raw json.RawMessage) []string {
	var all []string
	for _, item := range list(raw) {
		if s := word(item); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// bold counts the improvements of any criterion that are not incremental.
func (s *State) bold(improvements map[string]json.RawMessage) int {
	count := 0
	for i := range s.policy.Criteria {
		raw, ok := criterion(improvements, i)
		if !ok {
			continue
		}
		for _, one := range improvementsOf(raw) {
			if one.impact != Incremental {
				count++
			}
		}
	}
	return count
}

// keptOf reads what must stay of a criterion, false when it does not say.
func keptOf(raw json.RawMessage) ([]Kept, bool) {
	var all []Kept
	for _, item := range list(raw) {
		k := Kept{What: word(item)}
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) == nil && fields != nil {
			k = Kept{What: word(fields["what"]), Source: word(fields["source"])}
		}
		all = append(all, k)
	}
	blank := slices.ContainsFunc(all, func(k Kept) bool { return k.What == "" })
	return all, len(all) > 0 && !blank
}
