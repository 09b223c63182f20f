package jinja

import (
	"fmt"
	"strings"
	"time"
)

// strftime formats a time like C's strftime in the C locale, with the GNU flags -,
// _, 0, ^ and #. Times have no zone, as in Python's datetime.now().
func strftime(t time.Time, format string) string {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		from := i
		i++
		var flags string
		for i < len(format) && strings.IndexByte("-_0^#", format[i]) >= 0 {
			flags += format[i : i+1]
			i++
		}
		text, ok := "", false
		if i < len(format) {
			text, ok = timeField(t, format[i], flags)
		}
		if !ok {
			text = format[from:min(i+1, len(format))]
		}
		if strings.Contains(flags, "^") {
			text = strings.ToUpper(text)
		}
		out.WriteString(text)
	}
	return out.String()
}

// timeField formats one directive.
func timeField(t time.Time, c byte, flags string) (string, bool) {
	num := func(v, width int, pad string) (string, bool) {
		switch {
		case strings.Contains(flags, "-"):
			pad = ""
		case strings.Contains(flags, "_"):
			pad = " "
		case strings.Contains(flags, "0"):
			pad = "0"
		}
		if pad == "" {
			return fmt.Sprint(v), true
		}
		return fmt.Sprintf("%"+strings.TrimSpace(pad)+"*d", width, v), true
	}
	hour12 := (t.Hour()+11)%12 + 1
	isoYear, isoWeek := t.ISOWeek()
	switch c {
	case 'd':
		return num(t.Day(), 2, "0")
	case 'e':
		return num(t.Day(), 2, " ")
	case 'H':
		return num(t.Hour(), 2, "0")
	case 'k':
		return num(t.Hour(), 2, " ")
	case 'I':
		return num(hour12, 2, "0")
	case 'l':
		return num(hour12, 2, " ")
	case 'j':
		return num(t.YearDay(), 3, "0")
	case 'm':
		return num(int(t.Month()), 2, "0")
	case 'M':
		return num(t.Minute(), 2, "0")
	case 'S':
		return num(t.Second(), 2, "0")
	case 'U':
		return num((t.YearDay()+6-int(t.Weekday()))/7, 2, "0")
	case 'W':
		return num((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, 2, "0")
	case 'V':
		return num(isoWeek, 2, "0")
	case 'G':
		return num(isoYear, 4, "0")
	case 'g':
		return num(isoYear%100, 2, "0")
	case 'y':
		return num(t.Year()%100, 2, "0")
	case 'C':
		return num(t.Year()/100, 2, "0")
	case 'Y':
		return num(t.Year(), 1, "0")
	case 'u':
		return num((int(t.Weekday())+6)%7+1, 1, "0")
	case 'w':
		return num(int(t.Weekday()), 1, "0")
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	}
	return timeText(t, c, flags)
}

// timeText formats the directives that print names or combine other directives.
func timeText(t time.Time, c byte, flags string) (string, bool) {
	day, month := t.Weekday().String(), t.Month().String()
	half := "AM"
	if t.Hour() >= 12 {
		half = "PM"
	}
	swap := strings.Contains(flags, "#")
	switch c {
	case 'a':
		day = day[:3]
		fallthrough
	case 'A':
		if swap {
			day = strings.ToUpper(day)
		}
		return day, true
	case 'b', 'h':
		month = month[:3]
		fallthrough
	case 'B':
		if swap {
			month = strings.ToUpper(month)
		}
		return month, true
	case 'p':
		if swap {
			half = strings.ToLower(half)
		}
		return half, true
	case 'P':
		return strings.ToLower(half), true
	case 'c':
		return strftime(t, "%a %b %e %H:%M:%S %Y"), true
	case 'D', 'x':
		return strftime(t, "%m/%d/%y"), true
	case 'F':
		return strftime(t, "%Y-%m-%d"), true
	case 'T', 'X':
		return strftime(t, "%H:%M:%S"), true
	case 'R':
		return strftime(t, "%H:%M"), true
	case 'r':
		return strftime(t, "%I:%M:%S %p"), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	case 'z', 'Z':
		return "", true
	}
	return "", false
}
