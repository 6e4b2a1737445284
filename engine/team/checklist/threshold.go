package checklist

// effective is the threshold, bent by how many answers are left of limit.
func effective(threshold, limit, left int) int {
	if limit > 0 {
		ratio := float64(left) / float64(limit)
		switch {
		case left <= 2:
			threshold += 2
		case ratio <= 0.4:
			threshold++
		}
		if ratio >= 0.7 {
			threshold--
		}
	}
	return min(max(threshold, 0), 10)
}

// cutoff is the lowest score that passes, for an effective threshold.
func cutoff(effective int) int { return max(4, (20-effective)/2) }

// required is how many of n criteria must pass, for an effective threshold.
func required(n, effective int) int { return max(1, (n+1)/2, n-effective/30) }

func (p Policy) effective() int {
	return effective(p.Threshold, p.AnswerLimit, max(0, p.AnswerLimit-p.Answers))
}

func (p Policy) passes(score float64) bool { return score >= float64(cutoff(p.effective())) }

func (p Policy) required() int { return required(len(p.Criteria), p.effective()) }
