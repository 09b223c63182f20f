import './styles/tokens.css';
import './styles/base.css';
import './styles/prose.css';
import { mount } from 'svelte';
import App from './App.svelte';
import * as msg from './paraglide/messages.js';

const target = document.getElementById('app');
if (!target) throw new Error(msg.main_the_page_has_no_place_to());
mount(App, { target });
