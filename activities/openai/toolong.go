package openai

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// tooLongWords are how servers say that a prompt does not fit: OpenAI, vLLM,
// Anthropic, Gemini, llama.cpp, Ollama, Mistral, xAI, LM Studio, TGI, Bedrock. The
// group is the model's window, where they tell it.
var tooLongWords = compiled(
	`maximum (?:context|prompt|model) length (?:is|of) (\d+)`,
	`(\d+) maximum context length`,
	`prompt is too long: \d+ tokens > (\d+)`,
	`exceed context limit: \d+ \+ \d+ > (\d+)`,
	`token count.{0,40} exceeds the (?:maximum number of tokens allowed|limit of) \(?(\d+)`,
	`exceeds the available context size \((\d+)`,
	`exceeded max context length by \d+ tokens|exceeded max context length`,
	`context length of only (\d+)`,
	`max_new_tokens. must be <= (\d+)`,
	`maximum context length|maximum model length|context length exceeded|exceeds? (?:the |maximum )?(?:available |model's )?context`,
	`context (?:size|window|length) (?:is |was )?exceeded|larger than the context|longer than the context`,
	`(?:prompt|input|request) is too long|input token count.{0,40} exceeds`,
)

// perMinute is OpenAI's and Groq's refusal of a request that alone is more than
// its account may send in a minute: no waiting cures it.
var perMinute = regexp.MustCompile(`request too large\b.*\blimit (\d+), requested (\d+)`)

func compiled(patterns ...string) []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, p := range patterns {
		out = append(out, regexp.MustCompile(p))
	}
	return out
}

// tooLong recognises a prompt that does not fit, by the error's code where there is
// one, else by its words, and returns the tokens that do fit, 0 if it does not say.
func (p problem) tooLong(status int) (window int, long bool) {
	message := strings.ToLower(p.message)
	if m := perMinute.FindStringSubmatch(message); m != nil {
		limit, requested := tokens(m[1]), tokens(m[2])
		return limit, requested > limit
	}
	if status == http.StatusTooManyRequests {
		return 0, false
	}
	long = hasAny(p.code+" "+p.kind, "context_length_exceeded", "exceed_context_size")
	for _, words := range tooLongWords {
		m := words.FindStringSubmatch(message)
		if m == nil {
			continue
		}
		if long = true; len(m) > 1 && window == 0 {
			window = tokens(m[1])
		}
	}
	if !long {
		return 0, false
	}
	return max(window, p.window), true
}

// tokens is a number in a message, 0 if it is none to believe.
func tokens(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil || n > maxCount {
		return 0
	}
	return n
}
