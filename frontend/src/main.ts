import './styles/tokens.css';
import './styles/base.css';
import './styles/prose.css';
import { mount } from 'svelte';
import App from './App.svelte';

const target = document.getElementById('app');
if (!target) throw new Error('the page has no place to start');
mount(App, { target });
