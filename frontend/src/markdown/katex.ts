// KaTeX with its style sheet, in a separate module that is loaded with the first
// formula.
import 'katex/dist/katex.min.css';

export { default } from 'katex';
