package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"conclave/engine/eval"
)

// arithmetic returns a story that asks for its last number.
func arithmetic(chance *rand.Rand) eval.Question {
	name := one(chance, "Mara", "Jonas", "Aiko", "Tomas", "Leila", "Pavel", "Ines", "Kofi")
	switch chance.IntN(4) {
	case 0:
		boxes, each, sold, back := between(chance, 4, 19), between(chance, 6, 24), between(chance, 5, 20), between(chance, 2, 9)
		return eval.Question{
			Input: fmt.Sprintf("A bakery fills %d boxes with %d rolls each. It sells %d rolls, and %s brings %d of them back. How many rolls are in the bakery?",
				boxes, each, sold, name, min(back, sold)),
			Target: number(boxes*each - sold + min(back, sold)),
		}
	case 1:
		price, count, coupon, people := between(chance, 3, 15), between(chance, 4, 12), between(chance, 1, 9), between(chance, 2, 4)
		total := price*count - coupon
		people = divisor(total, people)
		return eval.Question{
			Input: fmt.Sprintf("%s buys %d tickets at %d euros each with a coupon that takes %d euros off the whole sum. %d people share the cost equally. How many euros does each of them pay?",
				name, count, price, coupon, people),
			Target: number(total / people),
		}
	case 2:
		start, rate, hours, leak := between(chance, 20, 90), between(chance, 7, 19), between(chance, 3, 9), between(chance, 2, 6)
		return eval.Question{
			Input: fmt.Sprintf("A tank holds %d litres. A pump adds %d litres an hour while a leak loses %d litres an hour. After %d hours half of the water that was in the tank at the beginning is drained as well, rounded down. How many litres are left?",
				start, rate, leak, hours),
			Target: number(start + (rate-leak)*hours - start/2),
		}
	default:
		pages, daily, days, more := between(chance, 200, 400), between(chance, 11, 25), between(chance, 3, 6), between(chance, 2, 9)
		return eval.Question{
			Input: fmt.Sprintf("%s reads a book of %d pages. On the first %d days %s reads %d pages a day, and on the next %d days %d pages more a day than before. How many pages are left?",
				name, pages, days, name, daily, 2, more),
			Target: number(pages - days*daily - 2*(daily+more)),
		}
	}
}

// divisor returns the number from 2 to 5 nearest to n that divides total, or 1.
func divisor(total, n int) int {
	for _, d := range []int{n, 2, 3, 4, 5} {
		if total%d == 0 {
			return d
		}
	}
	return 1
}

// choice returns a question for the largest of three computed amounts, for a date or for a
// remainder, with plausible wrong choices.
func choice(chance *rand.Rand) eval.Question {
	var question string
	var right int
	var wrong []int
	switch chance.IntN(3) {
	case 0:
		a, b, m := between(chance, 12, 48), between(chance, 3, 9), between(chance, 5, 11)
		question, right = fmt.Sprintf("What is the remainder of %d × %d divided by %d?", a, b, m), a*b%m
		wrong = []int{a * b / m, (a + b) % m, m - right, a % m, right + 1}
	case 1:
		today, later := chance.IntN(7), between(chance, 15, 120)
		names := []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
		q := eval.Question{Input: fmt.Sprintf("Today is %s. Which day of the week is it in %d days?", names[today], later)}
		answer := (today + later) % 7
		for i := range 4 {
			q.Choices = append(q.Choices, names[(answer+i)%7])
		}
		return shuffled(chance, q)
	default:
		speed, minutes, stop := 6*between(chance, 5, 20), between(chance, 3, 9)*10, between(chance, 1, 3)*5
		question = fmt.Sprintf("A train goes %d km an hour. It travels for %d minutes in all, of which it stands still for %d. How many km does it cover?", speed, minutes, stop)
		right = speed * (minutes - stop) / 60
		wrong = []int{speed * minutes / 60, right + 6, right - 3, speed * (minutes + stop) / 60, right + 9}
		if speed*(minutes-stop)%60 != 0 {
			question += " Round down to whole km."
		}
	}
	q := eval.Question{Input: question, Choices: []string{fmt.Sprint(right)}}
	for _, w := range append(wrong, right+2, right+4, right+7) {
		if text := fmt.Sprint(w); len(q.Choices) < 4 && w >= 0 && !slices.Contains(q.Choices, text) {
			q.Choices = append(q.Choices, text)
		}
	}
	return shuffled(chance, q)
}

// shuffled shuffles the choices of a question, the first of which is right.
func shuffled(chance *rand.Rand, q eval.Question) eval.Question {
	right := q.Choices[0]
	chance.Shuffle(len(q.Choices), func(i, j int) { q.Choices[i], q.Choices[j] = q.Choices[j], q.Choices[i] })
	q.Target = eval.Targets{string(rune('A' + slices.Index(q.Choices, right)))}
	return q
}

// words returns a question whose answer is found letter by letter or word by word.
func words(chance *rand.Rand) eval.Question {
	list := []string{
		"lantern", "orchard", "pebble", "harbour", "violin", "compass", "meadow", "thunder", "blanket", "garden",
		"copper", "pigeon", "saddle", "winter", "marble", "engine", "candle", "forest", "ribbon", "temple",
	}
	chance.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	word := list[0]
	switch chance.IntN(4) {
	case 0:
		letters := strings.Split(word, "")
		slices.Reverse(letters)
		return eval.Question{Input: fmt.Sprintf("Write the word %q backwards.", word), Target: eval.Targets{strings.Join(letters, "")}}
	case 1:
		text := strings.Join(list[:4], " ")
		letter := one(chance, "e", "a", "r", "n", "o")
		return eval.Question{
			Input:  fmt.Sprintf("How often does the letter %q occur in the text %q?", letter, text),
			Target: number(strings.Count(text, letter)),
		}
	case 2:
		some := slices.Clone(list[:5])
		nth := between(chance, 2, 4)
		input := fmt.Sprintf("Sort these words alphabetically: %s. Which word is number %d in the sorted list?", strings.Join(some, ", "), nth)
		slices.Sort(some)
		return eval.Question{Input: input, Target: eval.Targets{some[nth-1]}}
	default:
		some := list[:between(chance, 4, 6)]
		var initials strings.Builder
		for _, w := range some {
			initials.WriteString(w[len(w)-1:])
		}
		return eval.Question{
			Input:  fmt.Sprintf("Join the last letters of these words, in this order: %s.", strings.Join(some, ", ")),
			Target: eval.Targets{initials.String()},
		}
	}
}
