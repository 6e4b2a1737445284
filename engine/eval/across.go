package eval

// Across compares the arms that two evaluations have in common. Differences are those of the
// second less the first.
func Across(first, second []Sample, arms []Arm) []Pair {
	var pairs []Pair
	for _, arm := range arms {
		a, b := ofArm(second, arm.Name), ofArm(first, arm.Name)
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		if p := compare(a, b); p.N > 0 {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func ofArm(samples []Sample, arm string) []Sample {
	var own []Sample
	for _, s := range samples {
		if s.Arm == arm {
			own = append(own, s)
		}
	}
	return own
}
