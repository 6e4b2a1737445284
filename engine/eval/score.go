package eval

import (
	"cmp"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"conclave/engine/llm"
)

// The scorers. The last three need more than the texts of the question and the answer.
const (
	Match    = "match"    // the number or word of the last line is the target
	Exact    = "exact"    // the last line is the target, byte for byte
	Includes = "includes" // the text has the target in it
	Choice   = "choice"   // the letter of the last line is that of the target
	Pattern  = "pattern"  // the target is a regular expression that the text matches
	Command  = "command"  // the target is a command that succeeds in the answer's files
	Checks   = "checks"   // all checks of the question pass on the answer
	Graded   = "model_graded"
	JSON     = "json" // the data in the answer are the target, field by field
)

// Scorers returns the names of all scorers.
func Scorers() []string {
	return []string{Match, Exact, Includes, Choice, Pattern, Command, Checks, Graded, JSON}
}

// answerLine matches a line "ANSWER: …", which may be emphasized.
var answerLine = regexp.MustCompile(`(?im)^[\s*_#>` + "`" + `]*ANSWER[*_]*\s*:[\s*_` + "`" + `]*(.*\S)\s*$`)

// boxed matches the LaTeX command \boxed{…}, whose content may have braces of its own, and words
// matches \text{…} in it.
var (
	boxed = regexp.MustCompile(`\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}`)
	words = regexp.MustCompile(`\\text\{([^{}]*)\}`)
)

// Extract returns the text of the last line "ANSWER: …". An answer without such a line may have its
// result in \boxed{…}, as models trained on mathematics write it; the last one counts. Extract
// returns "" for an answer with neither.
func Extract(answer string) string {
	found := answerLine.FindAllStringSubmatch(answer, -1)
	if len(found) == 0 {
		return inBox(answer)
	}
	line := strings.TrimSpace(strings.Trim(found[len(found)-1][1], "*_` "))
	if result := inBox(line); result != "" {
		return result
	}
	if inner, ok := strings.CutPrefix(line, "("); ok && strings.Count(line, "(") == 1 && strings.HasSuffix(inner, ")") {
		line = strings.TrimSuffix(inner, ")") // the form suggests brackets around the answer
	}
	return strings.TrimSpace(line)
}

// inBox returns the content of the last \boxed{…} of a text, or "".
func inBox(text string) string {
	found := boxed.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return ""
	}
	return strings.TrimSpace(words.ReplaceAllString(found[len(found)-1][1], "$1"))
}

// Score returns whether an answer is right, and the part of it that was compared. correct is
// nil if the answer has no such part, or if the scorer needs more than its text.
func (q Question) Score(scorer, answer string) (extracted string, correct *bool) {
	scorer = q.ScoredBy(scorer)
	extracted = Extract(answer)
	switch scorer {
	case Command, Checks, Graded:
		return extracted, nil
	case JSON:
		d, found := q.readData(answer)
		if !found {
			return "", nil
		}
		right := !slices.Contains(slices.Collect(maps.Values(q.Fields(scorer, answer))), false)
		return string(d.JSON), &right
	case Includes, Pattern:
		if strings.TrimSpace(answer) == "" {
			return extracted, nil
		}
	default:
		if extracted == "" {
			return "", nil
		}
	}
	right := slices.ContainsFunc(q.Target, func(target string) bool { return q.matchesTarget(scorer, target, answer, extracted) })
	return extracted, &right
}

// readData reads the data in an answer: all of it, or its last fenced block. Data that do not fit the
// schema are compared without it.
func (q Question) readData(answer string) (llm.Data, bool) {
	block, _, _ := llm.FindData(answer)
	for _, text := range []string{answer, block} {
		d, err := cmp.Or(q.Schema, &llm.DataSchema{}).Read([]byte(text))
		if err != nil {
			d, err = llm.ReadData([]byte(text))
		}
		if err == nil {
			return d, true
		}
	}
	return llm.Data{}, false
}

var item = regexp.MustCompile(`/\d+`)

// Fields returns, for the scorer JSON, the fields of the target to which an answer is nearest and its
// own, and whether each is right: of the items of an array, whether all are.
func (q Question) Fields(scorer, answer string) map[string]bool {
	if q.ScoredBy(scorer) != JSON {
		return nil
	}
	given, _ := q.readData(answer)
	var nearest map[string]bool
	fewest := 0
	for _, target := range q.Target {
		want, _ := q.readData(target)
		differ := llm.Differences([]llm.Data{want, given})
		if nearest != nil && len(differ) >= fewest {
			continue
		}
		nearest, fewest = map[string]bool{}, len(differ)
		for _, f := range slices.Concat(want.Fields, given.Fields) {
			nearest[item.ReplaceAllString(f.Path, "/*")] = true
		}
		for _, d := range differ {
			nearest[item.ReplaceAllString(d.Path, "/*")] = false
		}
	}
	return nearest
}

func (q Question) matchesTarget(scorer, target, answer, extracted string) bool {
	switch scorer {
	case Exact:
		return extracted == strings.TrimSpace(target)
	case Includes:
		return strings.Contains(normalizeText(answer), normalizeText(target))
	case Pattern:
		p, err := regexp.Compile(target)
		return err == nil && p.MatchString(answer)
	case Choice:
		want, _ := q.choiceLetter(target)
		return q.chosenLetter(extracted) == want
	default:
		return canonicalAnswer(extracted) == canonicalAnswer(target)
	}
}

var firstLetter = regexp.MustCompile(`^[(\[]?([A-Za-z])(?:[).:\]\s,]|$)`)

func (q Question) chosenLetter(extracted string) string {
	if letter, found := q.choiceLetter(strings.TrimRight(extracted, ".")); found {
		return letter
	}
	if m := firstLetter.FindStringSubmatch(extracted); m != nil {
		return strings.ToUpper(m[1])
	}
	return ""
}

// VoteKey returns the key of an answer in a vote of samples: answers with equal keys are
// counted together.
func (q Question) VoteKey(scorer, answer string) string {
	extracted := Extract(answer)
	if d, found := q.readData(answer); found && q.ScoredBy(scorer) == JSON {
		return d.Canonical
	}
	if scorer = q.ScoredBy(scorer); scorer == Choice && extracted != "" {
		return cmp.Or(q.chosenLetter(extracted), canonicalAnswer(extracted))
	}
	if extracted == "" {
		return normalizeText(answer)
	}
	return canonicalAnswer(extracted)
}

// number matches a decimal number or a fraction, with signs and with commas between
// thousands.
var number = regexp.MustCompile(`[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s*/\s*\d+)?|[-+]?\.\d+`)

// canonicalAnswer returns the number in a text, in lowest terms, if the text has exactly one after
// its last equals sign. Otherwise it returns the text without case, closing punctuation and
// extra spaces.
func canonicalAnswer(text string) string {
	text = strings.ReplaceAll(text, "\u2212", "-") // the minus sign
	if i := strings.LastIndex(text, "="); i >= 0 && number.MatchString(text[i:]) {
		text = text[i+1:]
	}
	found := number.FindAllString(text, 2)
	if len(found) != 1 || identifier.MatchString(text) {
		return normalizeText(text)
	}
	plain := strings.NewReplacer(",", "", " ", "", "+", "").Replace(found[0])
	value, ok := new(big.Rat).SetString(plain)
	if !ok {
		return normalizeText(text)
	}
	return value.RatString()
}

// identifier matches a digit that belongs to a word.
var identifier = regexp.MustCompile(`[A-Za-z_]\d|\d[A-Za-z_]`)

// normalizeText returns a text after NFKC and case folding, with white space collapsed and
// without enclosing quotes and closing punctuation.
func normalizeText(text string) string {
	text = cases.Fold().String(norm.NFKC.String(text))
	return strings.Trim(strings.Join(strings.Fields(text), " "), " \"'`*_.,;:!?")
}
