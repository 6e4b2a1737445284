package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of JSON from models and callers.
const (
	maxJSON       = 64 << 10 // bytes
	maxJSONDepth  = 32
	maxJSONValues = 10_000
	maxDigits     = 100 // characters of a number
)

// surrogates matches an escaped pair of surrogates, or, as its group, half of one, or any other
// escape.
var surrogates = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.`)

// readJSON reads a JSON value with json.Number for numbers. It refuses what other programs cannot read
// or read differently: keys that are there twice in normal form, half surrogates, numbers beyond a
// double, and everything above the limits.
func readJSON(raw []byte) (any, error) {
	if len(raw) > maxJSON {
		return nil, fmt.Errorf("the JSON has %d bytes; at most %d are accepted", len(raw), maxJSON)
	}
	if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("it is not UTF-8 text")
	}
	for _, found := range surrogates.FindAllSubmatch(raw, -1) {
		if len(found[1]) > 0 {
			return nil, fmt.Errorf("%s is half of a surrogate pair; write the whole character", found[1])
		}
	}
	return readTokens(raw)
}

// IsAmbiguous reports whether valid JSON has a key twice, or is beyond the limits for values.
func IsAmbiguous(raw []byte) bool {
	_, err := readTokens(raw)
	return err != nil
}

func readTokens(raw []byte) (any, error) {
	r := jsonReader{Decoder: json.NewDecoder(bytes.NewReader(raw))}
	r.UseNumber()
	return r.readValue("", 0)
}

type jsonReader struct {
	*json.Decoder
	values int
}

// readValue reads the value at a path, which is a JSON pointer.
func (r *jsonReader) readValue(path string, depth int) (any, error) {
	token, err := r.Token()
	r.values++
	number, _ := token.(json.Number)
	begin, nested := token.(json.Delim)
	switch {
	case err != nil:
		return nil, err
	case r.values > maxJSONValues:
		return nil, fmt.Errorf("it has more than %d values", maxJSONValues)
	case depth == maxJSONDepth && nested:
		return nil, errors.New(faultAt(path, "nested more than %d levels deep", maxJSONDepth))
	case isHuge(string(number)):
		return nil, errors.New(faultAt(path, "the number is too large, too small or too long"))
	case !nested:
		return token, nil
	}
	items, fields, normal := []any{}, map[string]any{}, map[string]bool{}
	for r.More() {
		at, name := path+"/"+strconv.Itoa(len(items)), ""
		if begin == '{' {
			key, _ := r.Token()
			name, _ = key.(string)
			at = path + "/" + escapeToken(name)
			if normal[norm.NFC.String(name)] {
				return nil, errors.New(faultAt(at, "the key is there twice"))
			}
			normal[norm.NFC.String(name)] = true
		}
		value, err := r.readValue(at, depth+1)
		if err != nil {
			return nil, err
		}
		items, fields[name] = append(items, value), value
	}
	if _, err = r.Token(); begin == '{' {
		return fields, err
	}
	return items, err
}

func isHuge(number string) bool {
	f, err := strconv.ParseFloat(number, 64)
	digits, _, _ := strings.Cut(strings.ToLower(number), "e")
	return number != "" && (err != nil || len(number) > maxDigits || f == 0 && strings.ContainsAny(digits, "123456789"))
}

// faultAt describes a fault of the value at a JSON pointer.
func faultAt(pointer, format string, args ...any) string {
	if pointer == "" {
		pointer = "the top"
	}
	return "at " + pointer + ": " + fmt.Sprintf(format, args...)
}

// escapeToken returns a key as it stands in a JSON pointer.
func escapeToken(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// fenced matches a fenced block with its language, or a JSON object alone.
var fenced = regexp.MustCompile("(?s)```(\\w*)[^\\n]*\\n(.*?)\\n\\s*```|^()(\\s*\\{.*\\}\\s*)$")

// FindData returns the last fenced block of JSON in a text, and the rest of the text.
func FindData(content string) (data, words string, found bool) {
	for _, m := range fenced.FindAllStringSubmatch(content, -1) {
		if m[1] == "" || strings.EqualFold(m[1], "json") {
			data, words, found = m[2]+m[4], strings.Replace(content, m[0], "", 1), true
		}
	}
	return data, words, found
}

// encodeJSON encodes a value that was read from JSON.
func encodeJSON(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n")
}

// canonicalScalar returns the canonical JSON of a value that is no object and no array: numbers are
// decimals, texts are in NFC.
func canonicalScalar(value any) string {
	switch v := value.(type) {
	case json.Number:
		if n, ok := new(big.Rat).SetString(string(v)); ok {
			digits, _ := n.FloatPrec()
			return n.FloatString(digits)
		}
	case string:
		return encodeJSON(norm.NFC.String(v))
	}
	return encodeJSON(value)
}
